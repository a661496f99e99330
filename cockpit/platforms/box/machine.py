"""A host as its agent describes it: its clock, processes, sessions, small files and disks."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import Answers, Ask, ask
from cockpit.model.facet import Problem, kind_of
from cockpit.model.observed import Disk
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.files import (
    MOST,
    BadNote,
    ExitNote,
    PidNote,
    exit_note,
    pid_note,
)
from cockpit.runtime.mounts import shared_source
from cockpit.text.safe import clean

_SCREEN: Final = re.compile(r"\s+(\d+)\.([^\t]+)\t\((?!.*Dead \?)")


class Session(NamedTuple):
    """A pane of a tmux session, or a screen session; ``status`` is that of a dead pane's program.

    ``created`` is by the host's clock.
    """

    name: str
    pid: int
    created: float | None = None
    dead: bool = False
    status: int | None = None


TMUX: Final = ask(
    "tmux", "run",
    argv=[
        "tmux", "-u", "list-panes", "-a", "-F",
        "#{session_created}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}"
        "|#{session_name}",
    ],
)  # fmt: skip
SCREEN: Final = ask("screen", "run", argv=["screen", "-ls"])


def sessions(out: str) -> list[Session]:
    """Return the panes that tmux lists."""
    found = []
    for line in out.splitlines():
        created, pid, dead, status, signal, name = (*line.split("|", 5), *[""] * 6)[:6]
        number = _integer(pid)
        if name and number is not None:
            at = _integer(created)
            since = None if at is None else float(at)
            by = _integer(signal)
            code = _integer(status) if by is None else -by
            found.append(Session(name, number, since, dead == "1", code))
    return found


def screens(out: str) -> list[Session]:
    """Return the sessions that screen lists."""
    matches = (_SCREEN.match(line) for line in out.splitlines())
    return [Session(found[2], int(found[1])) for found in matches if found]


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


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


def disk_asks(places: Iterable[Place]) -> dict[Place, Ask]:
    """Return what asks for the disk that holds each place or its nearest parent."""
    return {each: ask(f"the disk of {each.path}", "disk", path=each.path) for each in places}


def disks_of(asked: Mapping[Place, Ask], answers: Answers) -> dict[Place, Disk | Problem]:
    """Return the disk of each place, or why it is not known."""
    found = {place: answers[each] for place, each in asked.items()}
    return {
        place: said if isinstance(said, Problem) else disk_of(said) for place, said in found.items()
    }


def shared_by(disks: Mapping[Place, Disk | Problem]) -> dict[Place, str | None]:
    """Return from where the disk of each place is mounted, if from a network; else ``None``.

    A place whose disk is not known is left out.
    """
    return {place: disk.shared for place, disk in disks.items() if isinstance(disk, Disk)}


def disk_of(said: Mapping[str, Any]) -> Disk:
    """Return a disk from the agent's figures."""
    usable = said["used"] + said["free"]
    shared = shared_source(said["source"])
    inodes = said["inodes"]
    return Disk(
        mount=clean(said["mount"]),
        shared=None if shared is None else clean(shared),
        free=said["free"],
        used_frac=said["used"] / usable if usable else 1.0,
        inodes_frac=1 - said["inodes_free"] / inodes if inodes else None,
    )
