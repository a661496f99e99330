from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import git
import pytest

from cockpit.config.file import store_path
from cockpit.demo import folder
from cockpit.demo.layout import DemoBusyError, DemoLayout, Lock
from cockpit.demo.processes import noted, stop
from cockpit.demo.session import prepare, remove, running
from cockpit.demo.situations import SITUATIONS, missing
from cockpit.model.history import PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.report import FleetReport
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from tests.waiting import until


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[DemoLayout]:
    made = DemoLayout(tmp_path / "demo")
    folder.take(made)
    yield made
    stop(made.living, patience=0.0)


@pytest.mark.slow
def test_kept_runs_are_taken_up_again_and_then_stopped(layout: DemoLayout) -> None:
    assert not prepare(layout)
    with running(layout, keep=True):
        until(lambda: len(layout.living()) >= 2)
    kept = {process.pid for process in layout.living()}
    assert len(kept) >= 2 and prepare(layout)
    with running(layout, keep=False, patience=0.0):
        assert {process.pid for process in layout.living()} >= kept
    assert layout.living() == []
    assert not prepare(layout)
    assert not layout.kept.exists()


@pytest.mark.slow
def test_without_its_guard_a_demo_still_leaves_nothing_behind(layout: DemoLayout) -> None:
    prepare(layout)
    with running(layout, keep=False, patience=0.0) as fleet:
        until(lambda: layout.living())
        found = guards(layout)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    assert len(found) == 1
    assert fleet.trouble is None
    assert layout.living() == []


KILLED = """
import sys
from pathlib import Path
from cockpit.demo.guard import DemoGuard
from cockpit.demo.layout import DemoLayout
guard = DemoGuard(DemoLayout(Path(sys.argv[1])))
print("guarded", flush=True)
sys.stdin.read()
"""
"""A demo that waits to be killed."""


@pytest.mark.slow
@pytest.mark.parametrize("deed", [prepare, remove])
def test_a_demo_waits_for_the_guard_of_one_that_was_killed(
    deed: Callable[[DemoLayout], object], layout: DemoLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stop the runs of the next one: they have the same pid files."""
    argv = [sys.executable, "-c", KILLED, str(layout.folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == b"guarded\n"
        until(lambda: guards(layout))
        (guard,) = guards(layout)
        os.kill(guard, signal.SIGSTOP)
        demo.kill()
    try:
        monkeypatch.setattr("cockpit.demo.guard.LONGEST", 0.0)
        with pytest.raises(DemoBusyError, match="of a demo that was killed are still being stopp"):
            deed(layout)
    finally:
        os.kill(guard, signal.SIGCONT)
    monkeypatch.undo()
    deed(layout)
    assert guards(layout) == []


def guards(layout: DemoLayout) -> list[int]:
    """Return the ids of the guards that live beside a demo."""
    return [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if str(layout.folder).encode() in _argv(entry) and b"cockpit.demo.guard" in _argv(entry)
    ]


def _argv(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.slow
def test_a_launch_is_written_down_while_it_happens(layout: DemoLayout) -> None:
    prepare(layout)
    first = SITUATIONS[0]
    with running(layout, keep=False, patience=0.0):
        until(lambda: first.launch_id in layout.logbook(first.name).read_text())
        process = noted(layout.run(first.name).pid_file)
        assert process is not None and process.launch_id == first.launch_id
    with git.Repo(layout.remotes / "records.git") as remote:
        messages = [str(commit.message) for commit in remote.iter_commits("main")]
    assert f"{first.name}: log launch" in messages
    assert f"{first.name}: start hero-run logbook" in messages


def test_a_new_demo_remembers_nothing_of_the_last_one(layout: DemoLayout) -> None:
    key = run_key(str(layout.run_file), "demo-torn")
    store = Store(store_path())
    RunMemory(store).add_phases(key, [PhaseMark(at=1.0, phase=Phase.FAILED)])
    assert RunMemory(store).phases(key)
    prepare(layout)
    assert RunMemory(store).phases(key) == ()
    store.close()


def test_building_anew_leaves_nothing_of_the_last_one(layout: DemoLayout) -> None:
    prepare(layout)
    (layout.run("demo-torn").folder / "old").touch()
    (layout.folder / "link").symlink_to(Path("/"))
    prepare(layout)
    assert not (layout.run("demo-torn").folder / "old").exists()
    assert not (layout.folder / "link").is_symlink()


def test_removing_takes_the_whole_folder(layout: DemoLayout) -> None:
    prepare(layout)
    remove(layout)
    assert not layout.folder.exists()


def test_a_lock_names_its_holder_and_is_free_again(layout: DemoLayout) -> None:
    with Lock(layout.lock), pytest.raises(DemoBusyError, match=rf"pid {os.getpid()}"):
        Lock(layout.lock).__enter__()
    with Lock(layout.lock):
        pass


def test_what_a_check_does_not_show_is_named() -> None:
    lines = missing(FleetReport(checked_at=0.0, runs=()))
    assert len(lines) == len(SITUATIONS) == 7
    assert "demo-slow: expected throughput collapse (C-05), found no such run" in lines
