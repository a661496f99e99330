"""The processes of this machine: which live, which one was noted, what they hold open or locked.

A process is known by the machine, its boot, its id and its start: ids are used again. Blocking;
called through ``offload``. Linux reads ``/proc``, others ask ``ps``.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/PID/stat, counted after the program's name
_ENDED = "ZX"


class ProcessFacts(NamedTuple):
    """What is known of a process id; a zombie counts as ended.

    ``started_at`` is ``None`` when the process lives but its start cannot be read. ``ticks``
    is the start in the kernel's ticks since boot: setting the clock moves ``started_at``,
    never ``ticks``.
    """

    pid: int
    alive: bool
    started_at: float | None = None
    ticks: int | None = None
    stopped: bool = False
    zombie: bool = False


def process_facts(pid: int, proc: Path = PROC) -> ProcessFacts:
    """Return the facts of ``pid`` on this machine. Ids below 1 are never alive."""
    if pid < 1:
        return ProcessFacts(pid=pid, alive=False)
    try:
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - thousands
            fields = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        if not (proc / "self" / "stat").exists():
            return _from_ps(pid)
        return ProcessFacts(pid=pid, alive=_answers(pid))
    return _from_stat(pid, fields, boot_time(proc))


def _answers(pid: int) -> bool:
    """Tell whether a signal could reach ``pid``; not being allowed to send one is a yes."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _from_stat(pid: int, text: bytes, boot: float | None) -> ProcessFacts:
    fields = text.rpartition(b")")[2].split()  # the name before it may hold blanks and brackets
    if len(fields) <= _START:
        return ProcessFacts(pid=pid, alive=_answers(pid))
    state = chr(fields[_STATE][0])
    started = None if boot is None else boot + int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    return ProcessFacts(
        pid=pid,
        alive=state not in _ENDED,
        started_at=started,
        ticks=int(fields[_START]),
        stopped=state in "Tt",
        zombie=state in _ENDED,
    )


def boot_time(proc: Path = PROC) -> float | None:
    """Return when the machine came up (epoch seconds), as the kernel tells it now."""
    for line in (proc / "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return None


def _from_ps(pid: int) -> ProcessFacts:
    from cockpit.runtime.shell import run_blocking  # where /proc tells, nothing is run

    argv = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = run_blocking(argv, deadline=5.0, env={"LC_ALL": "C"}, reads=True)
    state, _, started = done.text.strip().partition(" ")
    if not state:
        return ProcessFacts(pid=pid, alive=_answers(pid))
    try:  # "Sat Nov 21 10:25:01 2026", in local time
        began = time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        began = None
    return ProcessFacts(
        pid=pid,
        alive=state[0] not in _ENDED,
        started_at=began,
        stopped=state[0] == "T",
        zombie=state[0] in _ENDED,
    )


_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE: Final = Path("/etc/machine-id")
_SPACE: Final = Path("/proc/self/ns/pid")
START_SLACK: Final = 5.0
"""Seconds by which a noted start may differ from the computed one and still be the same."""


class Machine(NamedTuple):
    """Where process ids count: host name, the machine's own id, its boot, the pid namespace."""

    host: str | None = None
    machine: str | None = None
    boot: str | None = None
    space: str | None = None


class Start(NamedTuple):
    """When a process began: in kernel ticks since boot, and by the clock (epoch seconds)."""

    ticks: int | None = None
    at: float | None = None


class Where(Enum):
    """Where a noted process is, as seen from here."""

    HERE = "here"
    ELSEWHERE = "on another machine"
    RESTARTED = "here, before a restart"
    UNCLEAR = "before a restart, or elsewhere"
    CONTAINER = "in another container"


def here() -> Machine:
    """Return where this process counts; what the system does not tell is ``None``."""
    space = None
    with suppress(OSError):
        space = str(_SPACE.readlink())
    return Machine(socket.gethostname(), machine_id(), _stripped_text(_BOOT), space)


def machine_id() -> str | None:
    """Return the id of this machine, the same after a restart, where it has one."""
    return _stripped_text(_MACHINE)


def _stripped_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def where(noted: Machine, mine: Machine) -> Where:
    """Return where a noted process is; only a machine that is known by its id was restarted."""
    if _differ(noted.host, mine.host) or _differ(noted.machine, mine.machine):
        return Where.ELSEWHERE
    if _differ(noted.boot, mine.boot):
        both_known = None not in (noted.machine, mine.machine)
        return Where.RESTARTED if both_known else Where.UNCLEAR
    return Where.CONTAINER if _differ(noted.space, mine.space) else Where.HERE


def _differ(one: str | None, other: str | None) -> bool:
    return None not in (one, other) and one != other


def same_start(noted: Start, found: Start) -> bool | None:
    """Return whether two starts on one boot are the same; ``None`` where nothing can tell."""
    if noted.ticks is not None and found.ticks is not None:
        return noted.ticks == found.ticks
    if noted.at is None or found.at is None:
        return None
    return abs(noted.at - found.at) <= START_SLACK


def lives(pid: int, noted: Machine, start: Start) -> bool | None:
    """Return whether that very process lives; ``None`` where that is unknown from here.

    A living process whose start is unknown counts as the same one. Blocking.
    """
    found = where(noted, here())
    if found is not Where.HERE:
        return False if found is Where.RESTARTED else None
    facts = process_facts(pid)
    return facts.alive and same_start(start, Start(facts.ticks, facts.started_at)) is not False


EVERY: Final = 10.0
MOST_FILES: Final = 4096
"""Open files of one process that are looked at."""


class WrittenFiles:
    """All files that processes of this machine may write to, found at most every ``EVERY`` s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, str] = {}
        self._until = 0.0

    def now(self, proc: Path = PROC) -> dict[str, str]:
        """Return each as the kernel names it, with a handle of it (``/proc/PID/fd/N``)."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = dict(_handles(proc))
                self._until = time.monotonic() + EVERY
            return self._found


WRITTEN_FILES: Final = WrittenFiles()


def _handles(proc: Path) -> Iterator[tuple[str, str]]:
    for process in proc.iterdir() if (proc / "self" / "fd").is_dir() else ():
        if not process.name.isdigit():
            continue
        with suppress(OSError):  # gone, or another user's
            for handle in islice(os.scandir(process / "fd"), MOST_FILES):
                with suppress(OSError):
                    writes = handle.stat(follow_symlinks=False).st_mode & 0o200
                    path = str(Path(handle.path).readlink()) if writes else ""
                    if path.startswith("/") and not path.startswith("/dev/"):
                        yield path, handle.path


LOCKS: Final = Path("/proc/locks")


def stopped_holder(paths: Iterable[Path], locks: Path = LOCKS) -> int | None:
    """Return the process that is stopped and holds one of the files for writing, if one does.

    Without it a critical alert waits a minute for a store that nobody will free
    (``tests/notify/test_held_store.py``), and nobody learns which process to continue.
    """
    inodes = {found for path in paths if (found := _inode(path)) is not None}
    holders = {pid for pid, inode in _writers(locks) if inode in inodes and pid != os.getpid()}
    return next((pid for pid in sorted(holders) if process_facts(pid).stopped), None)


def stopped_words(pid: int) -> str:
    """Return a sentence about a stopped process that holds a file, and what to do."""
    return f"process {pid} holds it and is stopped: continue it (fg, or kill -CONT {pid}) or end it"


def _writers(locks: Path) -> Iterator[tuple[int, int]]:
    """Yield (process id, inode) of each lock for writing that is held, not waited for."""
    try:
        lines = locks.read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()  # "1: POSIX ADVISORY WRITE 4211 fd:01:1234 120 120"
        if len(words) < 6 or words[1] == "->" or words[3] != "WRITE":
            continue
        inode = words[5].rpartition(":")[2]
        if words[4].isdigit() and inode.isdigit():
            yield int(words[4]), int(inode)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
