"""The small files beside a job (format: ``platforms.local.jobs``), and of which machine they speak.

A bare process id says nothing of its machine. On a disk of this machine alone it is this machine's;
on one that others mount too, that no process here has it proves no end, and one that has it by
chance may be anything. Once it was seen to mean a process of this machine, it is this machine's.

A launch note of another machine says what that machine last knew: one that was started before the
job here may be a dead machine's, which can take nothing back; one that was started after it is a
second job (C-25). Blocking.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.hosts import notes
from cockpit.hosts.notes import machine_id
from cockpit.model.jobs import LiveJob
from cockpit.model.lineage import local_root
from cockpit.model.logtext import LogMark
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.runtime.mounts import file_system, open_regular
from cockpit.runtime.process import Machine
from cockpit.text.safe import clean

MOST: Final = 4096
"""Bytes of such a file that are read: a real one has less than 200."""
LARGEST_PID: Final = 2**31 - 1
FILE_SLACK: Final = 2.0
"""Seconds within which the times of two files do not tell which was written first for sure."""
_NUMBER = re.compile(r"[+-]?\d{1,18}")


class BadNote(NamedTuple):
    """A file that is there and cannot be believed, and why."""

    reason: str


class PidNote(NamedTuple):
    """A pid file: ``start`` as recorded, ``written_at`` the file's mtime (epoch seconds).

    ``ticks`` is the start in the kernel's ticks since boot, where the launcher noted it, and so
    are ``boot``, ``machine``, ``host`` and ``space`` (which process ids these are) and ``log``,
    where the job's first line stands in its log. ``run`` is the run that the process was adopted
    for; ``uid`` is whose file it is.
    """

    pid: int
    start: float | None
    launch_id: str | None
    written_at: float
    ticks: int | None = None
    boot: str | None = None
    machine: str | None = None
    host: str | None = None
    space: str | None = None
    log: LogMark | None = None
    uid: int | None = None
    run: str | None = None


class ExitNote(NamedTuple):
    """An exit file: the status, and when it was written."""

    status: int
    written_at: float


SETTLED: Final = 2.0
"""Seconds that a file must have stood still to be known again: one written now may be again."""
MOST_KNOWN: Final = 4096
_KNOWN: Final[dict[str, tuple[tuple[int, ...], PidNote | BadNote]]] = {}
"""What pid files said, with how they looked then."""


class Order(Enum):
    """Whether a file was written after the present job was launched."""

    AFTER = "after"
    BEFORE = "before"
    UNCLEAR = "unclear"


def order_of(note: PidNote | BadNote | None, log_at: float | None, written_at: float) -> Order:
    """Return whether a file that tells of an end was written after the launch.

    Times of files of one folder are in the order of writing, unless one was touched, restored
    or copied since: then a log that was written after the end is what speaks of a later job.
    """
    if not isinstance(note, PidNote) or written_at >= note.written_at:
        return Order.AFTER
    if note.start is not None and abs(note.start - written_at) > FILE_SLACK:
        return Order.AFTER if written_at > note.start else Order.BEFORE
    if log_at is not None and log_at > written_at + FILE_SLACK:
        return Order.BEFORE
    if note.written_at - written_at <= FILE_SLACK:
        return Order.BEFORE if note.start is not None else Order.UNCLEAR
    return Order.AFTER


def read_pid(path: str) -> PidNote | BadNote | None:
    """Return the pid file's content; ``None`` if there is none. Raises ``OSError``.

    One that is as it was at an earlier look is not read again: that is asked three times for each
    look at a job.
    """
    try:
        version = _version(os.stat(path))  # noqa: PTH116 - thousands of these
    except (FileNotFoundError, NotADirectoryError):
        return None
    known = _KNOWN.get(path)
    if known is not None and known[0] == version:
        return known[1]
    found = _read(path)
    if found is None:
        return None
    note = pid_note(found[0], path, found[1].st_mtime, found[1].st_uid)
    if time.time() - found[1].st_ctime > SETTLED:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[path] = _version(found[1]), note
    return note


def _version(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def pid_note(text: str, path: str, written_at: float, uid: int | None) -> PidNote | BadNote:
    """Return what the text of a pid file says."""
    first, *rest = text.splitlines() or [""]
    pid = _integer(first)
    if pid is None or not 0 < pid <= LARGEST_PID:
        return BadNote(f"{path}: expected a process id, found {_shown(first)}")
    fields = dict(line.split("=", 1) for line in rest if "=" in line)
    start = _seconds(fields.get("start"))
    words = ("launch_id", "boot", "machine", "host", "space", "run")
    given = {name: clean(fields[name], 200).strip() or None for name in words if name in fields}
    return PidNote(
        pid,
        start,
        written_at=written_at,
        ticks=_integer(fields.get("ticks", "")),
        log=_mark(fields.get("log", "")),
        uid=uid,
        **({"launch_id": None} | given),
    )


def read_exit(path: str) -> ExitNote | BadNote | None:
    """Return the exit file's content; ``None`` if there is none. Raises ``OSError``."""
    found = _read(path)
    return None if found is None else exit_note(found[0], path, found[1].st_mtime)


def exit_note(text: str, path: str, written_at: float) -> ExitNote | BadNote:
    """Return what the text of an exit file says."""
    status = _integer(text)
    if status is None or not -128 <= status <= 255:
        return BadNote(f"{path}: expected one exit status, found {_shown(text)}")
    return ExitNote(status, written_at)


def _read(path: str) -> tuple[str, os.stat_result] | None:
    try:
        with open_regular(path) as (fd, status):
            return os.read(fd, MOST).decode("utf-8", "replace"), status
    except (FileNotFoundError, NotADirectoryError):
        return None


def _mark(text: str) -> LogMark | None:
    numbers = [_integer(part) for part in text.split(":")]
    known = [number for number in numbers if number is not None and number >= 0]
    return LogMark(*known) if len(numbers) == len(known) == 3 else None


def _integer(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text := text.strip()) else None


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _shown(text: str) -> str:
    return f'"{clean(text, 40)}"' if text.strip() else "nothing (half written?)"


def mtime_of(place: Place | None) -> float | None:
    """Return when a file was last written, ``None`` if there is none."""
    return size_and_time(None if place is None else place.path)[1]


def size_and_time(path: str | None) -> tuple[int, float | None]:
    """Return (size, mtime) of a file, (0, None) if there is none."""
    if path is None:
        return 0, None
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of these
    except (FileNotFoundError, NotADirectoryError):
        return 0, None
    return found.st_size, found.st_mtime


def explain_exit(status: int) -> str | None:
    """Return what an exit status says: ``None`` for 0, the signal's name for -n and 128+n."""
    number = -status if status < 0 else status - 128
    if status == 0:
        return None
    if number > 0:
        try:
            return f"killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            pass
    said = _SHELL_WORDS.get(status)
    return f"exit code {status}" + (f" ({said})" if said else "")


_SHELL_WORDS: Final = {126: "cannot be executed", 127: "command not found"}


MOST_PROVEN: Final = 4096
_Key = tuple[Machine, str, PidNote]
_PROVEN: Final[dict[_Key, None]] = {}
"""Pid files that have meant a process of the machine that was looked at, as they were then."""


class SharedDisks:
    """What file systems of this machine others may write to, as found out in one look. Blocking."""

    def __init__(self) -> None:
        self._kinds: dict[int, str | None] = {}

    def of(self, run: RunSpec) -> str | None:
        """Return what network file system holds a run's pid file, ``None`` where that is none.

        A type that nobody knows counts as none: homes are encrypted and boxed in many ways.
        """
        place = None if run.job is None else run.job.pid_file
        folder = "" if place is None else posixpath.dirname(place.path)
        try:
            device = os.stat(folder or ".").st_dev  # noqa: PTH116 - thousands of these
        except OSError:
            return None
        if device not in self._kinds:
            found = file_system(Path(folder or "."))
            self._kinds[device] = found.text if found.shared else None
        return self._kinds[device]


def names_machine(note: PidNote) -> bool:
    """Tell whether a pid file says on which machine it was written, or on which boot."""
    return note.machine is not None or note.boot is not None


def remember(run: RunSpec, note: PidNote, machine: Machine) -> None:
    """Take in that a run's pid file means a process of ``machine``."""
    if len(_PROVEN) >= MOST_PROVEN:
        _PROVEN.clear()
    _PROVEN[_key(run, note, machine)] = None


def proven(run: RunSpec, note: PidNote, machine: Machine) -> bool:
    """Tell whether a run's pid file, as it is, was seen to mean a process of ``machine``."""
    return _key(run, note, machine) in _PROVEN


def _key(run: RunSpec, note: PidNote, machine: Machine) -> _Key:
    return machine, "" if run.job is None else str(run.job.pid_file), note


def doubt(note: PidNote, seen: str, disk: str) -> str:
    """Return why nobody can tell whether the process of a pid file on a shared ``disk`` lives."""
    what = seen or f"no process {note.pid} runs here"
    return f"{what}, but the pid file is on {disk}, and names no machine: it may run on another one"


NOTES: Final = "launch notes under the output root"
NEWEST: Final = 20
"""Launch notes that are looked at, the last ones by name."""


def launched_elsewhere(run: RunSpec, since: float | None) -> tuple[LiveJob, ...]:
    """Return what other machines have started after ``since`` and say that it runs."""
    root, here = local_root(run), machine_id()
    if root is None or here is None or since is None:
        return ()
    folder = Path(root) / notes.BELOW
    found = []
    with suppress(OSError):
        for name in sorted(notes.launch_ids(folder))[-NEWEST:]:
            job = _running(name, notes.read_note(folder / name) or {}, here, since)
            found += [] if job is None else [job]
    return tuple(found)


def _running(name: str, note: Mapping[str, str], here: str, since: float) -> LiveJob | None:
    machine, host = note.get("machine"), clean(note.get("host", "?"), 80)
    if note.get("state") != notes.RUNNING or machine in (None, here):
        return None
    try:
        at = float(note.get("at", ""))
    except ValueError:
        return None
    if at <= since:
        return None
    return LiveJob(
        id=f"{clean(name, 80)} on {host}",
        name=f"pid {clean(note.get('pid', '?'), 20)} on {host}",
        why="by its launch note, which another machine wrote",
        launch_id=clean(name, 80),
        started_at=at,
        proven=False,
    )
