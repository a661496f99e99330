"""``cockpit demo`` as a process: what it leaves behind. (``test_wheel.py`` sees it through.)"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import git
import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.demo import folder
from cockpit.demo.layout import DemoLayout
from cockpit.demo.processes import stop
from cockpit.demo.session import prepare
from cockpit.demo.situations import SITUATIONS
from cockpit.records.logbook.reading import read_logbook
from cockpit.verbs.demo import Ending
from tests.warm import Warm

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[DemoLayout]:
    made = DemoLayout(tmp_path / "demo")
    yield made
    stop(made.living, patience=0.0)


def demo(layout: DemoLayout, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "cockpit", "demo", "--dir", str(layout.folder), *arguments]
    return subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def until(true: Callable[[], object], patience: float = 180.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def built(layout: DemoLayout) -> DemoLayout:
    folder.take(layout)
    assert not prepare(layout)
    return layout


def test_the_run_file_is_one_that_the_cockpit_takes(layout: DemoLayout) -> None:
    file = load(built(layout).run_file)
    assert [run.name for run in file.runs] == [each.name for each in SITUATIONS]
    assert {run.cadence for run in file.runs} == {5.0}
    for run in file.runs:
        assert run.checkpoints and run.monitor and run.code and run.records.logbook
        assert run.dri and run.goal and run.stop_criteria and run.resubmit


def test_code_and_logbooks_are_committed_and_pushed(layout: DemoLayout) -> None:
    built(layout)
    for place, remote in ((layout.code, "code.git"), (layout.records, "records.git")):
        with git.Repo(place) as repo, git.Repo(layout.remotes / remote) as bare:
            assert bare.bare and bare.head.commit == repo.head.commit
            assert not repo.is_dirty(untracked_files=True)


def test_a_logbook_has_its_contract_its_launch_and_its_end(layout: DemoLayout) -> None:
    built(layout)
    situation = next(each for each in SITUATIONS if each.name == "demo-finished")
    folder.log_launch(layout, situation, folder.code_sha(layout))
    folder.log_end(layout, situation)
    folder.log_end(layout, situation)
    book = read_logbook(layout.logbook(situation.name).read_text())
    titles = [entry.title for entry in book.entries]
    assert len(titles) == 2
    assert situation.launch_id in titles[0] and "training complete" in titles[1]


def test_the_recorded_command_trains(layout: DemoLayout) -> None:
    """What the run file calls ``resubmit`` works as it stands, from the recorded folder."""
    run = load(built(layout).run_file).runs[0]
    assert run.resubmit is not None and run.job is not None and run.job.workdir is not None
    process = subprocess.Popen(
        list(run.resubmit), cwd=str(run.job.workdir), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any("train step 0/" in line for line in lines)
    process.terminate()
    process.communicate()
    assert process.returncode == 143


def test_a_folder_of_somebody_else_is_never_touched(layout: DemoLayout) -> None:
    layout.folder.mkdir()
    (layout.folder / "thesis.tex").write_text("years of work")
    assert main(["demo", "--headless", "--dir", str(layout.folder)]) == 2
    assert main(["demo", "--clean", "--dir", str(layout.folder)]) == 2
    assert [path.name for path in layout.folder.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--json"],
        ["--clean", "--keep"],
        [],
        ["--on", "box", "--headless"],
        ["--on", "ray", "--host", "h", "--headless"],
        ["--on", "slurm", "--address", "http://h", "--headless"],
        ["--on", "box", "--host", "h", "--sbatch=-p x", "--headless"],
        ["--python", "python3", "--headless"],
        ["--on", "slurm", "--sbatch=-p 'x", "--headless"],
    ],
)
def test_a_wrong_call_is_a_usage_error(
    layout: DemoLayout, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--dir", str(layout.folder), *wrong]) == 2
    assert capsys.readouterr().err.startswith("cockpit: ")
    assert not layout.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_whatever_ends_it_no_process_stays(layout: DemoLayout, number: signal.Signals) -> None:
    process = demo(layout, "--headless")
    until(lambda: len(layout.living()) >= 3)
    process.send_signal(number)
    assert process.wait(timeout=60) in (-number, 128 + number)
    until(lambda: layout.living() == [])
    time.sleep(1.0)
    assert layout.living() == []


@pytest.mark.slow
def test_a_second_one_is_told_about_the_first_and_clean_removes_all(layout: DemoLayout) -> None:
    first = demo(layout, "--headless")
    until(lambda: layout.living())
    for arguments in (["--headless"], ["--clean"]):
        second = Warm("cockpit", "demo", "--dir", str(layout.folder), *arguments)
        assert f"already at work in {layout.folder} (pid {first.pid})" in second.communicate()[1]
        assert second.returncode == 4
    first.terminate()
    first.communicate()
    assert (first.returncode, layout.living()) == (143, [])
    assert main(["demo", "--clean", "--dir", str(layout.folder)]) == 0
    assert not layout.folder.exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_lost_ends_it_all_the_same() -> None:
    """What a handler raises while a finalizer runs goes nowhere."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    former = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        ending = Ending()
        ending.heed()
        Finalized()
        with pytest.raises(SystemExit) as ended:
            ending.heed()
        assert ended.value.code == 128 + signal.SIGTERM
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
