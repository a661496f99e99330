from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cockpit.hosts.launches import LaunchError, Started, start
from cockpit.hosts.notes import started_at
from cockpit.hosts.supervisor import Launch
from cockpit.platforms.local.files import ExitNote, PidNote
from cockpit.runtime.process import process_facts
from tests.platforms.reading import read_exit, read_pid
from tests.waiting import until

PYTHON = (sys.executable, "-S", "-c")


def launch(folder: Path, *command: str, launch_id: str | None = None) -> Launch:
    return Launch(
        command=command,
        log=folder / "run.log",
        pid_file=folder / "run.pid",
        exit_file=folder / "run.exit",
        cwd=folder,
        launch_id=launch_id,
    )


def status(folder: Path, started: Started) -> int:
    started.supervisor.wait(timeout=60)
    note = read_exit(str(folder / "run.exit"))
    assert isinstance(note, ExitNote)
    return note.status


def test_it_notes_pid_start_and_launch_id_as_the_local_source_reads_them(tmp_path: Path) -> None:
    started = start(launch(tmp_path, *PYTHON, "import time; time.sleep(30)", launch_id="a-i001"))
    note = read_pid(str(tmp_path / "run.pid"))
    assert isinstance(note, PidNote)
    assert (note.pid, note.launch_id) == (started.pid, "a-i001")
    assert note.start == pytest.approx(started_at(started.pid) or time.time(), abs=1.0)
    assert note.ticks == process_facts(started.pid).ticks is not None
    os.killpg(started.pid, signal.SIGKILL)
    assert status(tmp_path, started) == 137


@pytest.mark.parametrize(("code", "expected"), [("pass", 0), ("raise SystemExit(3)", 3)])
def test_it_notes_the_exit_status(tmp_path: Path, code: str, expected: int) -> None:
    assert status(tmp_path, start(launch(tmp_path, *PYTHON, code))) == expected


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("earlier\n")
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    status(tmp_path, start(launch(tmp_path, *PYTHON, code)))
    assert (tmp_path / "run.log").read_text() == "earlier\nout\nerr\n"


def test_a_new_launch_removes_the_former_exit_status(tmp_path: Path) -> None:
    (tmp_path / "run.exit").write_text("1\n")
    started = start(launch(tmp_path, *PYTHON, "import time; time.sleep(30)"))
    assert not (tmp_path / "run.exit").exists()
    os.killpg(started.pid, signal.SIGTERM)
    assert status(tmp_path, started) == 143


def test_a_missing_program_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="cannot start no-such-program: No such file"):
        start(launch(tmp_path, "no-such-program"))
    assert (tmp_path / "run.exit").read_text() == "127\n"
    assert not (tmp_path / "run.pid").exists()


def test_sigterm_to_the_supervisor_reaches_the_command(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\ntime.sleep(30)"
    )
    started = start(launch(tmp_path, *PYTHON, code))
    until(lambda: (tmp_path / "run.log").read_text() == "ready\n")
    started.supervisor.terminate()
    assert status(tmp_path, started) == 7


def test_it_outlives_the_session_that_started_it(tmp_path: Path) -> None:
    """The starter is killed with its whole group; the command runs on and its end is noted."""
    code = (
        "import time, pathlib\n"
        "from cockpit.hosts.launches import start\n"
        "from cockpit.hosts.supervisor import Launch\n"
        f"p = pathlib.Path({str(tmp_path)!r})\n"
        "start(Launch(['sleep', '0.5'], p / 'run.log', p / 'run.pid', p / 'run.exit', p))\n"
        "time.sleep(30)"
    )
    root = Path(__file__).resolve().parents[4]
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=root, start_new_session=True)
    until((tmp_path / "run.pid").exists)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    until((tmp_path / "run.exit").exists)
    assert (tmp_path / "run.exit").read_text() == "0\n"
