"""The small files of a job on a host: what is asked of them, and what the answer means."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import Ask, ask
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.files import (
    MOST,
    BadNote,
    ExitNote,
    PidNote,
    exit_note,
    pid_note,
)
from cockpit.text.safe import clean

_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Stat(NamedTuple):
    """A file as its host measures it: bytes, epoch seconds of its clock."""

    regular: bool
    size: int
    mtime: float
    inode: int
    uid: int


class JobFiles(NamedTuple):
    """The files of one job. ``problem`` is why not all of them could be looked at."""

    pid: PidNote | BadNote | None = None
    exit: ExitNote | BadNote | None = None
    marker_at: float | None = None
    log: Stat | None = None
    problem: Problem | None = None


class _Answer(NamedTuple):
    """What is known of one file; no ``stat``: there is none."""

    stat: Stat | None = None
    text: str = ""
    problem: Problem | None = None


def files_ask(run: RunSpec) -> Ask:
    """Return what asks for a job's pid file, exit file, marker and log."""
    job = run.job or JobSpec(kind="box")
    places = ((job.pid_file, MOST), (job.exit_file, MOST), (job.done_marker, 0), (job.log, 0))
    wanted = [(place.path, most) for place, most in places if place is not None]
    return ask(f"the files of {run.name}", "files", wanted=wanted)


def job_files(job: JobSpec | None, answers: Sequence[Mapping[str, Any]]) -> JobFiles:
    """Return a job's files from the answer to ``files_ask``."""
    job = job or JobSpec(kind="box")
    places = (job.pid_file, job.exit_file, job.done_marker, job.log)
    said = iter(answers)
    pid, end, marker, log = (
        _Answer() if place is None else _answer(str(place), next(said)) for place in places
    )
    problems = (each.problem for each in (pid, end, marker, log))
    return JobFiles(
        None if pid.stat is None else _pid(pid, str(job.pid_file), pid.stat),
        None if end.stat is None else _exit(end, str(job.exit_file), end.stat),
        None if marker.stat is None else marker.stat.mtime,
        log.stat,
        next(filter(None, problems), None),
    )


def _answer(place: str, said: Mapping[str, Any]) -> _Answer:
    if "figures" in said:
        kind, size, mtime, inode, _, uid = said["figures"]
        return _Answer(Stat(kind == "file", size, mtime, inode, uid), said["text"])
    if said["errno"] in _ABSENT:
        return _Answer()
    kind = ErrorKind.PERMISSION if said["errno"] == errno.EACCES else ErrorKind.BAD_ANSWER
    return _Answer(problem=Problem(kind=kind, message=f"{place}: {clean(said['text'], 160)}"))


def _pid(answer: _Answer, place: str, stat: Stat) -> PidNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return pid_note(answer.text, place, stat.mtime, stat.uid)


def _exit(answer: _Answer, place: str, stat: Stat) -> ExitNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return exit_note(answer.text, place, stat.mtime)
