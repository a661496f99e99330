"""What holds wherever a start is cut off: no job without a trace, no second one (SPEC A)."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cockpit.hosts import notes
from cockpit.hosts.launches import (
    LaunchError,
    LockedError,
    Started,
    UnansweredError,
    UsedError,
    start,
)
from cockpit.hosts.notes import boot_id, start_ticks
from cockpit.hosts.supervisor import expand
from cockpit.platforms.local.files import PidNote
from tests.hosts.launching import PYTHON, SLEEP, launch
from tests.platforms.reading import read_pid
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[4]


def marked(value: str, name: str = "COCKPIT_SECRET_OF_THE_TEST") -> list[int]:
    """Return the processes that carry a variable, zombies apart."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and f"{name}={value}".encode() in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@pytest.fixture
def fleet() -> Iterator[list[Started]]:
    everything: list[Started] = []
    yield everything
    for each in everything:
        with suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.supervisor.wait()


def test_a_job_carries_what_it_is_and_its_supervisor_does_not(
    tmp_path: Path, fleet: list[Started]
) -> None:
    fleet.append(start(launch(tmp_path)))
    told = Path(f"/proc/{fleet[0].pid}/environ").read_bytes().split(b"\0")
    assert {b"COCKPIT_LAUNCH_ID=a-i001", b"COCKPIT_RUN=a", b"COCKPIT_LINEAGE=root:1,wandb:2"} <= {
        *told
    }
    assert not [part for part in told if part.startswith(b"COCKPIT_SUPERVISES")]
    own = Path(f"/proc/{fleet[0].supervisor.pid}/environ").read_bytes()
    assert b"COCKPIT_SUPERVISES=a-i001" in own and b"COCKPIT_LAUNCH_ID" not in own


def test_the_note_of_a_launch_tells_which_process_it_is(
    tmp_path: Path, fleet: list[Started]
) -> None:
    fleet.append(start(launch(tmp_path)))
    note = notes.read_note(tmp_path / "launches" / "a-i001") or {}
    assert note["state"] == notes.RUNNING and note["boot"] == boot_id()
    assert (int(note["pid"]), int(note["ticks"])) == (fleet[0].pid, start_ticks(fleet[0].pid))
    os.kill(fleet[0].pid, signal.SIGTERM)
    fleet[0].supervisor.wait(60)
    note = notes.read_note(tmp_path / "launches" / "a-i001") or {}
    assert (note["state"], note["exit"]) == (notes.ENDED, "143")


def test_a_second_job_of_the_lineage_is_refused_and_told_of_the_first(
    tmp_path: Path, fleet: list[Started]
) -> None:
    fleet.append(start(launch(tmp_path)))
    with pytest.raises(LockedError, match=rf"a-i001 still lives: .*pid {fleet[0].pid} "):
        start(launch(tmp_path, number=2))
    note = read_pid(str(tmp_path / "run.pid"))
    assert isinstance(note, PidNote) and note.pid == fleet[0].pid
    assert not (tmp_path / "launches" / "a-i002").exists()


def test_one_lock_in_common_is_enough(tmp_path: Path, fleet: list[Started]) -> None:
    fleet.append(start(launch(tmp_path)))
    (tmp_path / "b").mkdir()
    other = replace(launch(tmp_path / "b"), locks=(tmp_path / "locks" / "wandb.lock",))
    with pytest.raises(LockedError):
        start(other)


def test_the_lock_is_held_when_the_supervisor_is_killed(
    tmp_path: Path, fleet: list[Started]
) -> None:
    fleet.append(start(launch(tmp_path)))
    fleet[0].supervisor.kill()
    fleet[0].supervisor.wait()
    with pytest.raises(LockedError, match=f"pid {fleet[0].pid} "):
        start(launch(tmp_path, number=2))
    os.killpg(fleet[0].pid, signal.SIGKILL)
    until(lambda: start_ticks(fleet[0].pid) is None)
    fleet.append(start(launch(tmp_path, number=2)))


def test_what_cleans_by_age_leaves_the_locks_of_a_job(tmp_path: Path, fleet: list[Started]) -> None:
    fleet.append(start(launch(tmp_path)))
    locks = launch(tmp_path).locks
    for lock in locks:
        lock.read_text()
        seen = lock.stat()
        assert min(seen.st_atime, seen.st_mtime) > time.time() + 1e8, lock
    os.killpg(fleet[0].pid, signal.SIGKILL)
    fleet[0].supervisor.wait(60)
    assert all(lock.stat().st_mtime < time.time() + 60 for lock in locks)


def test_an_orphan_of_the_job_still_holds_the_lock_and_is_named(
    tmp_path: Path, fleet: list[Started]
) -> None:
    code = (
        "import os, time\n"
        "pid = os.fork()\n"
        "if pid: print(pid, flush=True)\n"
        "else:\n    os.setsid(); time.sleep(60)"
    )
    fleet.append(start(launch(tmp_path, *PYTHON, code)))
    fleet[0].supervisor.wait(60)
    orphan = int((tmp_path / "run.log").read_text())
    try:
        with pytest.raises(LockedError, match=f"pid {orphan} "):
            start(launch(tmp_path, number=2))
    finally:
        os.kill(orphan, signal.SIGKILL)
    until(lambda: start_ticks(orphan) is None)
    fleet.append(start(launch(tmp_path, number=2)))


def test_a_trainer_that_closes_everything_is_still_guarded(
    tmp_path: Path, fleet: list[Started]
) -> None:
    code = f"import os; os.closerange(3, 256); print('closed', flush=True); {SLEEP}"
    fleet.append(start(launch(tmp_path, *PYTHON, code)))
    until(lambda: (tmp_path / "run.log").read_text() == "closed\n")
    with pytest.raises(LockedError, match=f"pid {fleet[0].supervisor.pid} "):
        start(launch(tmp_path, number=2))


def test_a_launch_id_is_used_once_even_after_its_job_has_ended(tmp_path: Path) -> None:
    start(launch(tmp_path, *PYTHON, "print('ran')")).supervisor.wait(60)
    with pytest.raises(UsedError, match=r"a-i001 was used before: state=ended, .*exit=0"):
        start(launch(tmp_path, *PYTHON, "print('ran')"))
    assert (tmp_path / "run.log").read_text() == "ran\n"
    assert (tmp_path / "run.exit").read_text() == "0\n"


def test_one_whose_launch_id_was_closed_leaves_before_it_takes_a_lock(
    tmp_path: Path, fleet: list[Started]
) -> None:
    """Else it would stand in the way of the launch that a look-up has made room for."""
    fleet.append(start(launch(tmp_path, *PYTHON, SLEEP)))
    closed = {"state": notes.CLOSED, "launch_id": "a-i002"}
    notes.claim_launch(tmp_path / "launches", "a-i002", closed)
    with pytest.raises(UsedError, match="a-i002 was used before: state=closed"):
        start(launch(tmp_path, *PYTHON, SLEEP, number=2))


def test_variables_are_filled_in_by_the_supervisor_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    code = "import sys; print(sys.argv[1:])"
    told = launch(tmp_path, *PYTHON, code, "$TOKEN", "x-${TOKEN}-y", "$COCKPIT_LAUNCH_ID", "$1")
    start(told).supervisor.wait(60)
    assert (tmp_path / "run.log").read_text() == "['hunter2', 'x-hunter2-y', 'a-i001', '$1']\n"
    rest = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert sum("hunter2" in text for text in rest) == 1


def test_a_variable_that_is_not_set_is_named_and_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"\$NO_SUCH_THING, which is not set"):
        start(launch(tmp_path, "echo", "$NO_SUCH_THING"))
    assert not (tmp_path / "run.pid").exists()
    note = notes.read_note(tmp_path / "launches" / "a-i001") or {}
    assert note["state"] == notes.FAILED


def test_no_shell_ever_sees_the_command() -> None:
    env = {"A": "$(touch x); `id` ~"}
    assert expand(["p", "$A", "~/x", "a;b"], env) == ["p", "$(touch x); `id` ~", "~/x", "a;b"]
    assert expand(["~/x"], env) == [str(Path.home() / "x")]


def test_a_failed_start_leaves_the_former_pid_file(tmp_path: Path) -> None:
    (tmp_path / "run.pid").write_text("1\nstart=1.0\n")
    bad = tmp_path / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    with pytest.raises(LaunchError, match="cannot start"):
        start(launch(tmp_path, str(bad)))
    assert (tmp_path / "run.pid").read_text() == "1\nstart=1.0\n"


def test_no_answer_in_time_is_neither_yes_nor_no(tmp_path: Path) -> None:
    """The log is a pipe that nobody reads: opening it hangs the supervisor."""
    os.mkfifo(tmp_path / "run.log")
    with pytest.raises(UnansweredError):
        start(launch(tmp_path), deadline=0.5)
    until((tmp_path / "launches" / "a-i001").exists)
    note = notes.read_note(tmp_path / "launches" / "a-i001") or {}
    assert note["state"] == notes.STARTING
    os.kill(int(note["supervisor"]), signal.SIGKILL)
    until(lambda: start_ticks(int(note["supervisor"])) is None or _zombie(int(note["supervisor"])))
    assert not (tmp_path / "run.pid").exists()


def _zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


STARTER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.hosts.launching import launch
from cockpit.hosts.launches import start
folder = Path(sys.stdin.readline().strip())
try:
    start(launch(folder, number=int(sys.argv[1])))
except Exception as error:
    print(type(error).__name__, error)
else:
    print("started")
"""


def starter(folder: Path, number: int, mark: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER.format(root=str(ROOT)), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "COCKPIT_SECRET_OF_THE_TEST": mark},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(f"{folder}\n")
    process.stdin.flush()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["caller", "supervisor"])
def test_killed_at_any_instant_what_runs_is_noted_and_alone(tmp_path: Path, victim: str) -> None:
    dice = random.Random(7)
    seen = {"ran": 0, "none": 0}
    for round_ in range(20 if os.environ.get("SOAK") else len(MOMENTS)):
        folder = tmp_path / str(round_)
        folder.mkdir()
        mark = f"{tmp_path.name}-{victim}-{round_}"
        process = starter(folder, 1, mark)
        wait_for(MOMENTS[round_ % len(MOMENTS)], folder, mark, process)
        time.sleep(dice.uniform(0.0, 0.02))
        for pid in [process.pid] if victim == "caller" else _supervisors(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(60)
        until(partial(_started_or_over, mark))
        jobs = _jobs(mark)
        assert len(jobs) <= 1, jobs
        if jobs:
            note = read_pid(str(folder / "run.pid"))
            assert isinstance(note, PidNote) and note.pid == jobs[0]
            with pytest.raises((LockedError, UsedError)):
                start(launch(folder, number=2))
        elif not (folder / "launches" / "a-i001").exists():
            notes.claim_launch(folder / "launches", "a-i001", {"state": notes.CLOSED})
        seen["ran" if jobs else "none"] += 1
        with pytest.raises((LockedError, UsedError)):
            start(launch(folder, number=1))
        for pid in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None and process.stdin is not None
        process.stdout.close()
        process.stdin.close()
    assert min(seen.values()) > 0, seen


MOMENTS = ("at once", "supervisor", "locks", "launches/a-i001", "run.pid", "answer")
"""What has been seen of a start when something is killed; chance adds a little to it."""


def _started_or_over(mark: str) -> bool:
    return not _supervisors(mark) or bool(_jobs(mark))


def wait_for(moment: str, folder: Path, mark: str, process: subprocess.Popen[str]) -> None:
    """Return when a start has come so far, or is over."""
    if moment == "at once":
        return
    if moment == "supervisor":
        until(lambda: _supervisors(mark) or _over(process), 60)
    elif moment == "answer":
        assert process.stdout is not None
        process.stdout.readline()
    else:
        until(lambda: (folder / moment).exists() or _over(process), 60)


def _over(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


def _supervisors(mark: str) -> list[int]:
    return [pid for pid in marked(mark) if _has(pid, b"COCKPIT_SUPERVISES=") and not _zombie(pid)]


def _jobs(mark: str) -> list[int]:
    return [pid for pid in marked(mark) if _has(pid, b"COCKPIT_LAUNCH_ID=") and not _zombie(pid)]


def _has(pid: int, name: bytes) -> bool:
    with suppress(OSError):
        return name in Path(f"/proc/{pid}/environ").read_bytes()
    return False


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, nearly full when a test says so."""
    place = tmp_path / "tiny"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", str(place)],
        capture_output=True,
    )
    if done.returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, name: str = "filler") -> None:
    with suppress(OSError), (place / name).open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@pytest.mark.parametrize("room", range(8))
def test_a_full_disk_starts_nothing_or_something_noted(
    tmp_path: Path, tiny: Path, room: int, fleet: list[Started]
) -> None:
    """``room`` pages are free: each place where the disk can become full comes up."""
    folder = tiny / "run"
    folder.mkdir()
    keep = [tiny / f"keep{number}" for number in range(room)]
    for path in keep:
        path.write_bytes(b"x" * 4096)
    fill(tiny)
    for path in keep:
        path.unlink()
    mark = f"{tmp_path.name}-{room}"
    told = replace(launch(folder), env={"COCKPIT_SECRET_OF_THE_TEST": mark})
    try:
        fleet.append(start(told))
    except LaunchError as error:
        assert "No space left" in str(error), error
        until(lambda: all(_zombie(pid) for pid in marked(mark)))
    else:
        note = read_pid(str(folder / "run.pid"))
        assert isinstance(note, PidNote) and note.pid == fleet[0].pid


def test_the_exit_status_is_noted_although_the_disk_has_become_full(
    tmp_path: Path, tiny: Path, fleet: list[Started]
) -> None:
    full = tmp_path / "full"
    code = (
        f"import os, time\nwhile not os.path.exists({str(full)!r}): time.sleep(0.01)\n"
        f"open({str(tiny / 'big')!r}, 'wb')"
    )
    fleet.append(start(launch(tiny, *PYTHON, code)))
    fill(tiny)
    full.touch()
    fleet[0].supervisor.wait(60)
    assert (tiny / "run.exit").read_text() == "0\n"


def test_a_limit_on_file_sizes_starts_nothing(tmp_path: Path) -> None:
    """Whoever cannot write its notes starts nothing, whatever it is that stops it."""
    code = STARTER.format(root=str(ROOT))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, "-c", code, "1"], input=f"{tmp_path}\n", preexec_fn=limit,
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert "LaunchError" in done.stdout and "File too large" in done.stdout
    assert not (tmp_path / "run.pid").exists()


@pytest.mark.slow
def test_two_that_start_at_once_start_one(tmp_path: Path) -> None:
    for round_ in range(8 if os.environ.get("SOAK") else 2):
        folder = tmp_path / str(round_)
        folder.mkdir()
        mark = f"{tmp_path.name}-race-{round_}"
        same = round_ % 2
        racers = [starter(folder, 1 if same else number, mark) for number in (1, 2, 3)]
        said = [racer.communicate(timeout=60)[0].split()[0] for racer in racers]
        assert said.count("started") == 1, said
        assert len(_jobs(mark)) == 1
        for pid in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
