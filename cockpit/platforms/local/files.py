"""The small files beside a job (format: ``platforms.local.jobs``), and of which machine they speak.

A bare process id says nothing of its machine. On a disk of this machine alone it is this machine's;
on one that others mount too, that no process here has it proves no end, and one that has it by
chance may be anything. Once it was seen to mean a process of this machine, it is this machine's.

A launch note of another machine says what that machine last knew: one that was started before the
job here may be a dead machine's, which can take nothing back; one that was started after it is a
second job (C-25). Blocking.
"""

from __future__ import annotations

import errno
import math
import os
import posixpath
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.hosts import notes
from cockpit.hosts.link import Ask, ask
from cockpit.model.facet import Problem, kind_of
from cockpit.model.jobs import LiveJob
from cockpit.model.logtext import LogMark
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.runtime.mounts import file_system
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


def pid_note(text: str, path: str, written_at: float, uid: int | None) -> PidNote | BadNote:
    """Return what the text of a pid file says."""
    first, *rest = text.splitlines() or [""]
    pid = whole_number(first)
    if pid is None or not 0 < pid <= LARGEST_PID:
        return BadNote(f"{path}: expected a process id, found {_shown(first)}")
    fields = dict(line.split("=", 1) for line in rest if "=" in line)
    start, ticks = _seconds(fields.get("start")), whole_number(fields.get("ticks", ""))
    words = ("launch_id", "boot", "machine", "host", "space", "run")
    given = {name: clean(fields[name], 200).strip() or None for name in words if name in fields}
    return PidNote(
        pid,
        start,
        written_at=written_at,
        ticks=None if ticks is None or ticks < 0 else ticks,
        log=_mark(fields.get("log", "")),
        uid=uid,
        **({"launch_id": None} | given),
    )


def exit_note(text: str, path: str, written_at: float) -> ExitNote | BadNote:
    """Return what the text of an exit file says."""
    status = _status(text)
    if status is None:
        return BadNote(f"{path}: expected one exit status, found {_shown(text)}")
    return ExitNote(status, written_at)


def _mark(text: str) -> LogMark | None:
    numbers = [whole_number(part) for part in text.split(":")]
    known = [number for number in numbers if number is not None and number >= 0]
    return LogMark(*known) if len(numbers) == len(known) == 3 else None


def _status(text: str) -> int | None:
    status = whole_number(text)
    return None if status is None or not -128 <= status <= 255 else status


def whole_number(text: str) -> int | None:
    """Return the number that a file of a job holds, where it is one."""
    return int(text) if _NUMBER.fullmatch(text := text.strip()) else None


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _shown(text: str) -> str:
    return f'"{clean(text, 40)}"' if text.strip() else "nothing (half written?)"


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


ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
"""What says that a file is not there; a link that leads nowhere is none either."""


class Stat(NamedTuple):
    """A file as its host measures it: bytes, epoch seconds of its clock."""

    regular: bool
    size: int
    mtime: float
    inode: int
    uid: int


class JobFiles(NamedTuple):
    """The files of one job, and the note of its launch where that was asked for.

    ``problem`` is why not all of them could be looked at, ``unread`` why not the pid file.
    """

    pid: PidNote | BadNote | None = None
    exit: ExitNote | BadNote | None = None
    marker_at: float | None = None
    log: Stat | None = None
    launch: Mapping[str, str] | None = None
    problem: Problem | None = None
    unread: Problem | None = None

    def noted_exit(self, note: PidNote | None) -> int | None:
        """Return the exit status that the note of a pid file's launch holds, if it has ended.

        The supervisor writes it with the process's start: no clock that was set since, and no
        file that was touched, can make it another job's.
        """
        if self.launch is None or note is None or note.launch_id is None:
            return None
        ours = (self.launch.get("pid"), self.launch.get("ticks")) == (
            str(note.pid),
            str(note.ticks),
        )
        if self.launch.get("state") != notes.ENDED or not ours:
            return None
        return _status(self.launch.get("exit", ""))


class _Answer(NamedTuple):
    """What is known of one file; no ``stat``: there is none."""

    stat: Stat | None = None
    text: str = ""
    problem: Problem | None = None


def files_ask(run: RunSpec, launch: Place | None = None) -> Ask:
    """Return what asks for a job's pid file, exit file, marker and log, and a launch's note."""
    wanted = [(place.path, most) for place, most in _asked(run, launch) if place is not None]
    return ask(f"the files of {run.name}", "files", wanted=wanted)


def _asked(run: RunSpec, launch: Place | None) -> tuple[tuple[Place | None, int], ...]:
    job = run.job
    if job is None:
        return ((None, 0),) * 5
    files = ((job.pid_file, MOST), (job.exit_file, MOST), (job.done_marker, 0), (job.log, 0))
    return (*files, (launch, MOST))


def job_files(
    run: RunSpec, answers: Sequence[Mapping[str, Any]], launch: Place | None = None
) -> JobFiles:
    """Return a job's files from the answer to ``files_ask``."""
    said = iter(answers)
    found = [
        _Answer() if place is None else _answer(str(place), next(said))
        for place, _ in _asked(run, launch)
    ]
    pid, end, marker, log, note = found
    pid_file, exit_file = (run.job.pid_file, run.job.exit_file) if run.job else (None, None)
    return JobFiles(
        None if pid.stat is None else _pid(pid, str(pid_file), pid.stat),
        None if end.stat is None else _exit(end, str(exit_file), end.stat),
        None if marker.stat is None else marker.stat.mtime,
        log.stat,
        None if note.stat is None else notes.parsed_note(note.text),
        next((each.problem for each in found if each.problem is not None), None),
        pid.problem,
    )


def _answer(place: str, said: Mapping[str, Any]) -> _Answer:
    if "figures" in said:
        kind, size, mtime, inode, _, uid = said["figures"]
        return _Answer(Stat(kind == "file", size, mtime, inode, uid), said["text"])
    if said["errno"] in ABSENT:
        return _Answer()
    kind = kind_of(OSError(said["errno"], said["text"]))
    return _Answer(problem=Problem(kind=kind, message=f"{place}: {clean(said['text'], 160)}"))


def _pid(answer: _Answer, place: str, stat: Stat) -> PidNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return pid_note(answer.text, place, stat.mtime, stat.uid)


def _exit(answer: _Answer, place: str, stat: Stat) -> ExitNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return exit_note(answer.text, place, stat.mtime)


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
LAUNCHES_READ: Final = 20
"""Launch notes that are looked at, the last ones by name."""


def launched_elsewhere(
    listed: Iterable[Sequence[str]], mine: Machine, since: float | None
) -> tuple[LiveJob, ...]:
    """Return what other machines have started after ``since`` and say that it runs.

    ``listed`` are the newest launch notes, each ``[launch id, text]``.
    """
    if mine.machine is None or since is None:
        return ()
    told = (_running(name, notes.parsed_note(text), mine.machine, since) for name, text in listed)
    return tuple(job for job in told if job is not None)


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
