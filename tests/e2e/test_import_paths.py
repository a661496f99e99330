"""Folders that Python was told to look into, full of our own names and the library's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from cockpit.hosts.launches import start
from cockpit.hosts.supervisor import Launch
from cockpit.runtime.own_path import NEEDED, NEEDED_IN_PLACES, own_python
from tests.terminal_probe import Terminal

ROOT = Path(__file__).resolve().parents[2]
STRANGERS = ("widgets", "screens", "textual", "logging", "json", "argparse", "typing_extensions")
FOLDERS = ("themes", "rich", "asyncio")
SCRIPT = "import sys\nfrom run_cockpit import start\nsys.argv[0] = 'cockpit'\nsys.exit(start())\n"
"""What an installer writes as the ``cockpit`` command."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder in which everything that can be imported ends the program."""
    folder = tmp_path / "training"
    folder.mkdir()
    for name in STRANGERS:
        plant(folder / f"{name}.py")
    for name in FOLDERS:
        (folder / name).mkdir()
        plant(folder / name / "__init__.py")
    return folder


def plant(path: Path) -> None:
    path.write_text(f"import os\nos.write(2, b'STRANGER {path.name}')\nos._exit(99)\n")


def environment(*paths: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "LC_ALL": "C.UTF-8"}


def call(*argv: object, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [str(each) for each in argv]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_the_module_wins_over_the_current_folder_and_pythonpath(hostile: Path) -> None:
    words = (sys.executable, "-m", "cockpit", "scrub", "--help")
    done = call(*words, cwd=hostile, env=environment(hostile, ROOT))
    assert (done.returncode, done.stderr) == (0, "") and "every secret" in done.stdout


def test_the_installed_command_wins_over_a_cockpit_of_theirs(hostile: Path) -> None:
    plant(hostile / "cockpit.py")
    script = hostile.parent / "cockpit-command"
    script.write_text(SCRIPT)
    done = call(sys.executable, script, "--version", cwd=hostile, env=environment(hostile, ROOT))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("cockpit ")


def test_what_we_start_ourselves_looks_nowhere_else(hostile: Path) -> None:
    for name in ("cockpit", "run_cockpit", "os", "re", "types", "runpy", "sitecustomize"):
        plant(hostile / f"{name}.py")
    done = call(*own_python("cockpit", "--version"), cwd=hostile, env=environment(hostile))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("cockpit ")


def test_the_ui_opens_among_strangers(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    env = {**environment(hostile, ROOT), "TERM": "xterm-256color", "TMUX": ""}
    terminal = Terminal([sys.executable, "-m", "cockpit"], env)
    terminal.wait_for("seven small real training runs")
    terminal.type("q")
    terminal.end()
    assert (terminal.status, b"STRANGER" in terminal.output) == (0, False)


def test_the_users_own_command_gets_their_folders_unchanged(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("types", "re", "signal"):
        plant(hostile / f"{name}.py")
    monkeypatch.setenv("PYTHONPATH", f"{hostile}:/opt/ours:")
    monkeypatch.chdir(hostile)
    told = hostile.parent / "told"
    command = ("sh", "-c", f'printf %s "$PYTHONPATH" > {told}')
    ended = hostile.parent / "exit"
    start(Launch(command, hostile.parent / "log", hostile.parent / "pid", ended, cwd=hostile))
    until = time.monotonic() + 30
    while not ended.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert told.read_text() == f"{hostile}:/opt/ours:"


def test_packages_that_only_pythonpath_has_are_still_found(hostile: Path) -> None:
    code = (
        "import sys, json; kept = [p for p in sys.path if 'site-packages' not in p]\n"
        f"sys.path[:] = kept; sys.path.insert(0, {str(ROOT)!r})\n"
        "from cockpit.runtime.own_path import settle\nsettle()\nprint(sys.path[-1])"
    )
    packages = next(Path(each) for each in sys.path if each.endswith("site-packages"))
    done = call(sys.executable, "-c", code, cwd=hostile.parent, env=environment(packages))
    assert done.stdout.strip() == str(packages), done.stderr
    done = call(sys.executable, "-S", "-c", code, cwd=hostile.parent, env=environment())
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("cockpit: httpx, pydantic") and done.stderr.count("\n") == 1


def test_what_is_looked_for_is_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {each.partition(">")[0] for each in project["dependencies"]}
    in_places = {name.lower(): module for module, name in NEEDED_IN_PLACES.items()}
    assert {in_places.get(each, each) for each in named} == {*NEEDED, *NEEDED_IN_PLACES}


HIDDEN = ("git", "gitpython", "mcp", "plotext", "shtab", "wandb")


@pytest.fixture
def without_clients(tmp_path: Path) -> list[str]:
    """Return a command that runs the program where ``HIDDEN`` cannot be imported."""
    packages = next(Path(each) for each in sys.path if each.endswith("site-packages"))
    slim = tmp_path / "packages"
    slim.mkdir()
    for each in packages.iterdir():
        if each.name.partition("-")[0].lower() not in HIDDEN:
            (slim / each.name).symlink_to(each)
    (slim / "wandb.py").write_text("raise OSError('libnccl.so.2 is missing')\n")
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.path.append({str(slim)!r})\n"
        "from run_cockpit import start; start()"
    )
    return [sys.executable, "-S", "-c", code]


def test_what_needs_no_client_works_without_one(without_clients: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("step 10 loss 2.5\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    (tmp_path / "cockpit.toml").write_text(
        '[[run]]\nname = "plain"\noutput_root = "."\n[run.job]\nkind = "local"\nlog = "run.log"\n'
    )
    for words, status, part in (
        (["--version"], 0, "cockpit "),
        (["triage", str(log), "--state", "failed"], 0, "oom_device"),
        (["check", "--json"], 1, '"plain"'),
    ):
        done = call(*without_clients, *words, cwd=tmp_path, env=environment())
        assert (done.returncode, done.stderr) == (status, ""), (words, done)
        assert part in done.stdout


@pytest.mark.parametrize(
    ("words", "missing", "package"),
    [
        (["demo", "--headless", "--dir", "demo"], "GitPython", "GitPython"),
        (["plot", "rows.jsonl"], "plotext", "plotext"),
        (["completions", "bash"], "shtab", "shtab"),
        (["mcp"], "mcp", "'run-cockpit[mcp]'"),
    ],
)
def test_a_verb_says_in_one_line_which_library_it_misses(
    without_clients: list[str], words: list[str], missing: str, package: str, tmp_path: Path
) -> None:
    rows = [json.dumps({"step": step, "loss": 3.0 - step / 100}) for step in range(50)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    done = call(*without_clients, *words, cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert f"needs {missing}, which cannot be imported" in done.stderr
    assert done.stderr.count("\n") == 1 and f"pip install {package}\n" in done.stderr
