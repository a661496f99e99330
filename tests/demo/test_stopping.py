from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.demo.processes import Noted, living, noted, stop
from cockpit.hosts.launches import Started, start
from cockpit.hosts.own_folder import write_atomically
from cockpit.hosts.supervisor import Launch

LIVE = "print('ready', flush=True)\ntime.sleep(60)"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Started]]:
    everything: list[Started] = []
    yield everything
    for each in everything:
        with suppress(ProcessLookupError):  # the supervisor outlives what it has seen end
            os.killpg(each.pid, signal.SIGKILL)
        each.supervisor.wait()


def run(folder: Path, code: str) -> Started:
    folder.mkdir()
    argv = (sys.executable, "-S", "-c", code)
    log, pid, exit_ = (folder / f"run.{kind}" for kind in ("log", "pid", "exit"))
    return start(Launch(argv, log, pid, exit_, folder))


def ready(folder: Path, code: str) -> Started:
    """Start ``code`` and return once it has said that it is ready."""
    started = run(folder, f"import signal, sys, time\n{code}")
    while not (folder / "run.log").read_text():
        time.sleep(0.01)
    return started


def in_folder(folder: Path) -> list[Noted]:
    return living(folder.glob("*/run.pid"))


def test_everything_named_is_stopped_politely(tmp_path: Path, started: list[Started]) -> None:
    for name in "ab":
        started.append(run(tmp_path / name, "import time; time.sleep(60)"))
    stop(lambda: in_folder(tmp_path), patience=10)
    assert [(tmp_path / name / "run.exit").read_text() for name in "ab"] == ["143\n", "143\n"]
    assert in_folder(tmp_path) == []


def test_what_does_not_listen_is_killed(tmp_path: Path, started: list[Started]) -> None:
    started.append(ready(tmp_path / "a", f"signal.signal(15, signal.SIG_IGN)\n{LIVE}"))
    stop(lambda: in_folder(tmp_path), patience=0.3)
    assert (tmp_path / "a" / "run.exit").read_text() == "137\n"


def test_a_stopped_process_is_killed_too(tmp_path: Path, started: list[Started]) -> None:
    handler = "signal.signal(15, lambda *_: sys.exit(3))"
    started.append(ready(tmp_path / "a", f"{handler}\n{LIVE}"))
    os.kill(started[0].pid, signal.SIGSTOP)
    stop(lambda: in_folder(tmp_path), patience=0.2)
    assert (tmp_path / "a" / "run.exit").read_text() == "137\n"


def test_children_in_its_group_go_along(tmp_path: Path, started: list[Started]) -> None:
    code = (
        "import subprocess, time\nc = subprocess.Popen(['sleep', '60'])\nprint(c.pid, flush=True)"
    )
    started.append(run(tmp_path / "a", f"{code}\ntime.sleep(60)"))
    while not (child := (tmp_path / "a" / "run.log").read_text().strip()):
        time.sleep(0.01)
    stop(lambda: in_folder(tmp_path), patience=5)
    time.sleep(0.05)
    state = subprocess.run(["ps", "-o", "stat=", "-p", child], capture_output=True, text=True)
    assert state.stdout.strip()[:1] in ("", "Z")


def test_a_reused_process_id_is_left_alone(tmp_path: Path, started: list[Started]) -> None:
    started.append(run(tmp_path / "a", "import time; time.sleep(60)"))
    pid_file = tmp_path / "a" / "run.pid"
    write_atomically(pid_file, f"{started[0].pid}\nstart={started[0].start - 100}\n")
    assert in_folder(tmp_path) == []
    stop(lambda: in_folder(tmp_path), patience=0.0)
    assert started[0].supervisor.poll() is None


@pytest.mark.parametrize("text", ["", "x\nstart=1\n", "12\n", "12\nstart=soon\n", "\0\xff"])
def test_a_pid_file_that_says_nothing_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.pid").write_text(text)
    assert noted(tmp_path / "run.pid") is None


def test_a_clock_that_was_set_hides_no_living_process(
    tmp_path: Path, started: list[Started]
) -> None:
    started.append(run(tmp_path / "a", "import time; time.sleep(60)"))
    note = tmp_path / "a" / "run.pid"
    moved = note.read_text().replace("start=1", "start=2")
    note.write_text(moved)
    (found,) = in_folder(tmp_path)
    assert found.pid == started[0].pid
    ticks = next(line for line in moved.splitlines() if line.startswith("ticks="))
    note.write_text(moved.replace(ticks, f"{ticks}0"))
    assert in_folder(tmp_path) == []
