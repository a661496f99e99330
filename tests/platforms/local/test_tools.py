"""Which processes are no jobs: a supervisor is known by its file wherever that ever was."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.hosts import launches
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.programs import is_supervisor
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, pids, run_spec


@pytest.mark.parametrize(
    ("program", "supervises"),
    [
        (launches._BEGIN, True),
        ("/site-packages/cockpit/platforms/local/launcher/supervisor.py", True),
        ("/old/site-packages/cockpit/launch/supervisor.py", True),
        ("/home/ada/supervisor.py", False),
    ],
)
def test_a_supervisor_is_known_by_its_file(program: str, supervises: bool) -> None:
    argv = ("/usr/bin/python3", "-IS", "-Xutf8", "-c", program, "--log", "run.log")
    process = Process(
        pid=7, ppid=1, pgid=7, sid=7, uid=0, state="S", ticks=1, argv=argv, env=None, cwd=None
    )
    assert is_supervisor(process) is supervises


@pytest.mark.parametrize("words", [("diff.py",), ("gemini.py",), ("-m", "vector.train")])
def test_a_script_of_ones_own_may_be_called_like_a_tool(
    tmp_path: Path, zoo: Zoo, words: tuple[str, ...]
) -> None:
    (tmp_path / "vector").mkdir()
    for name in ("diff.py", "gemini.py", "vector/train.py"):
        (tmp_path / name).write_text(WAIT)
    run = run_spec(tmp_path)
    pid = zoo.run(*PYTHON, *words, "--output_dir", str(run.output_root), cwd=tmp_path)
    assert pids(live(run)) == [pid]


@pytest.mark.parametrize("words", [("-m", "tensorboard.main"), ("tensorboard",)])
def test_a_tool_that_python_runs_is_no_job(
    tmp_path: Path, zoo: Zoo, words: tuple[str, ...]
) -> None:
    (tmp_path / "tensorboard").mkdir()
    for name in ("tensorboard/main.py", "tensorboard/__main__.py"):
        (tmp_path / name).write_text(WAIT)
    run = run_spec(tmp_path)
    zoo.run(*PYTHON, *words, "--output_dir", str(run.output_root), cwd=tmp_path)
    assert not pids(live(run))
