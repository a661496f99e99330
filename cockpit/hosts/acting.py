"""What the agent does to processes: it signals them, sees who is stopped, runs a command."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS, LATE, PROC, run

STILL_STOPPED = 0.15
"""Seconds after which a process must still be stopped."""
MOST_LATE = 2
LATE_STATUS = (LATE, 124)
"""The statuses of what took too long: by the agent's clock, by ``timeout``'s."""
NOT_BEGUN = {errno.ENOENT: 127, errno.EACCES: 126}
CANNOT_FORK = 2
"""The statuses of what was not begun, as a shell has them: of no process left, for one."""
FOLDER = "{folder}"
"""The word of a command that stands for the folder it works in."""
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)


def expanded(command: Sequence[str]) -> list[str]:
    """Return the command with ``$NAME`` and ``${NAME}`` filled in, and ``~`` of its program.

    No shell is involved. Raises ``OSError`` for a variable that is not set.
    """
    try:
        first, *rest = (_VARIABLE.sub(lambda m: os.environ[m[1] or m[2]], one) for one in command)
    except KeyError as error:
        text = f"it uses ${error.args[0]}, which is not set"
        raise OSError(errno.EINVAL, text) from error
    return [_at_home(first), *rest]


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a user that is not there is left as it is


def command(words: Sequence[str], folder: str | None, seconds: float) -> list[Any]:
    """Run a recorded command in a folder and return what ``run`` does."""
    place = None if folder is None else _at_home(folder)
    return run(expanded(words), seconds, english=False, folder=place)


def runs(
    rows: Sequence[Sequence[Sequence[str]]], folder: str, seconds: float, most: int, stdin: str = ""
) -> list[list[Any]]:
    """Run rows of commands, one after the other, and return of each row what ``run`` does.

    They enter ``folder`` themselves (``FOLDER``): on a dead disk a process that was to begin there
    would hang before it is the command, and out of reach of its deadline. A row's next command
    reads what the one before has written, and is not run where that failed. After ``MOST_LATE``
    rows that took too long no other is begun.
    """
    found: list[list[Any]] = []
    for row in rows:
        done: list[Any] = [0, stdin, "", False]
        if sum(each[0] in LATE_STATUS for each in found) >= MOST_LATE:
            done, row = [LATE, "", "", False], ()
        for words in row:
            if done[0] or done[3]:
                done[1] = ""
                break
            words = [_at_home(folder) if word == FOLDER else word for word in words]
            try:
                done = run(words, seconds, done[1], most)
            except OSError as error:
                status = NOT_BEGUN.get(error.errno or 0, CANNOT_FORK)
                done = [status, "", error.strerror or str(error), False]
        found.append(done)
    return found


def kill(targets: Sequence[Sequence[Any]], heard: bool = False) -> list[int]:
    """Signal each ``[pid, start in ticks, name]``, never a later process with that id.

    Returns of each 0, or why it was not sent: ``ESRCH`` where that very process has ended,
    ``EPERM`` where it is another user's, and ``ENOTSUP`` where only one that has a handler is
    meant (``heard``) and it has none: unheard, most signals kill.
    """
    found = []
    for pid, ticks, name in targets:
        try:
            _signal(pid, ticks, getattr(signal, "SIG" + name), heard)
            found.append(0)
        except OSError as error:
            found.append(error.errno or errno.EIO)
    return found


def _signal(pid: int, ticks: int, number: int, heard: bool) -> None:
    handle = _handle(pid)
    try:
        if _start(pid) != ticks:
            raise ProcessLookupError(errno.ESRCH, "it has ended")
        if heard and not _hears(pid, number):
            raise OSError(errno.ENOTSUP, "it does not handle the signal")
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    finally:
        if handle is not None:
            os.close(handle)


def _handle(pid: int) -> int | None:
    """Return what means this very process from now on, where the kernel has that."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # an old Python or kernel
        return None


def stops(pids: Sequence[int]) -> list[list[Any]]:
    """Return which of these still are stopped after a moment: one that is traced often stops.

    Each is ``[pid, start in ticks, pid of its debugger or 0, seconds since it last ran]``, the
    last ``None`` where the scheduler does not tell.
    """
    time.sleep(STILL_STOPPED)
    clocks: dict[int, float | None] = {}
    found = []
    for pid in pids:
        fields = _fields(pid)
        if len(fields) > 19 and fields[0] in (b"T", b"t"):
            idle = [_idle(path, clocks) for path in Path(f"{PROC}/{pid}/task").glob("*")]
            known = [seconds for seconds in idle if seconds is not None]
            tracer = int(_status(pid, b"TracerPid:") or b"0")
            found.append([pid, int(fields[19]), tracer, min(known, default=None)])
    return found


def _idle(thread: Path, clocks: dict[int, float | None]) -> float | None:
    """Return the seconds since the scheduler last let a thread run; ``clocks``: those of CPUs."""
    ran = _ran(thread)
    with contextlib.suppress(OSError, ValueError, IndexError):
        cpu = int((thread / "stat").read_bytes().rpartition(b")")[2].split()[36])
        if cpu not in clocks:
            clocks[cpu] = _clock(cpu)
        now = clocks[cpu]
        return None if ran is None or now is None else max(0.0, now - ran)
    return None


def _clock(cpu: int) -> float | None:
    """Return the scheduler's clock of one CPU, ``None`` where this thread may not run there.

    Each has its own, which stands still while the machine below, or an interrupt, has the CPU: on a
    busy virtual machine two of them are minutes apart.
    """
    try:
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu})
    except (OSError, AttributeError):
        return None
    try:
        return _ran(Path(f"{PROC}/thread-self"))
    finally:
        os.sched_setaffinity(0, own)


def _ran(thread: Path) -> float | None:
    """Return when the scheduler last let a thread run, in seconds of its CPU's clock."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = (thread / "sched").read_text(encoding="ascii", errors="replace")
        line = next((each for each in text.splitlines() if each.startswith("se.exec_start")), "")
        return float(line.split(":")[1]) / 1000
    return None


def _start(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def _fields(pid: int) -> list[bytes]:
    """Return what a process's ``stat`` says behind its name, nothing of one that is not there."""
    try:
        return Path(f"{PROC}/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _status(pid: int, key: bytes) -> bytes | None:
    """Return a value of a process's ``status``; ``None`` where that cannot be read."""
    try:
        lines = Path(f"{PROC}/{pid}/status").read_bytes().splitlines()
    except OSError:
        return None
    line = next((line for line in lines if line.startswith(key)), b"")
    return line.partition(b":")[2].strip()


def _hears(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal."""
    caught = _status(pid, b"SigCgt:") or b"0"
    return bool(int(caught, 16) >> (number - 1) & 1)


for _each in (command, kill, runs, stops):
    CALLS[_each.__name__] = _each
