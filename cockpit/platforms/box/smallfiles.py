"""The small files of a job on a host, from what ``words.files`` prints of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.place import Place
from cockpit.model.run import JobSpec
from cockpit.platforms.local.files import BadNote, ExitNote, PidNote, exit_note, pid_note
from cockpit.text.safe import clean

_ABSENT: Final = ("No such file or directory", "Not a directory")
_FIELDS: Final = 5


class Stat(NamedTuple):
    """A file as its host measures it: bytes, epoch seconds of its clock."""

    regular: bool
    size: int
    mtime: float
    inode: int
    uid: int


class Told(NamedTuple):
    """What one line tells of a file: its figures, ``None`` if there is none; or what is wrong."""

    stat: Stat | None = None
    problem: Problem | None = None
    text: str = ""


class JobFiles(NamedTuple):
    """The files of one job. ``problem`` is why not all of them could be looked at."""

    pid: PidNote | BadNote | None = None
    exit: ExitNote | BadNote | None = None
    marker_at: float | None = None
    log: Stat | None = None
    problem: Problem | None = None


def job_files(out: bytes, jobs: Sequence[JobSpec]) -> list[JobFiles]:
    """Return the files of each of these jobs as their host tells them, in order."""
    told = _read(out)
    return [_one(told, number, job) for number, job in enumerate(jobs)]


def _one(told: Mapping[str, Told], number: int, job: JobSpec) -> JobFiles:
    places = {"pid": job.pid_file, "exit": job.exit_file, "marker": job.done_marker, "log": job.log}
    silent = Problem(kind=ErrorKind.BAD_ANSWER, message="its host does not tell of it")
    seen = {key: told.get(f"{key}:{number}", Told(problem=silent)) for key in places if places[key]}
    troubles = [
        Problem(kind=each.problem.kind, message=f"{places[key]}: {each.problem.message}")
        for key, each in seen.items()
        if each.problem is not None
    ]
    pid, exit_file = seen.get("pid", Told()), seen.get("exit", Told())
    marker, log = seen.get("marker", Told()).stat, seen.get("log", Told()).stat
    return JobFiles(
        None if pid.stat is None else _pid(pid, job.pid_file, pid.stat),
        None if exit_file.stat is None else _exit(exit_file, job.exit_file, exit_file.stat),
        None if marker is None else marker.mtime,
        log,
        troubles[0] if troubles else None,
    )


def _pid(seen: Told, place: Place | None, stat: Stat) -> PidNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return pid_note(seen.text, str(place), stat.mtime, stat.uid)


def _exit(seen: Told, place: Place | None, stat: Stat) -> ExitNote | BadNote:
    if not stat.regular:
        return BadNote(f"{place}: expected a file")
    return exit_note(seen.text, str(place), stat.mtime)


def _read(out: bytes) -> dict[str, Told]:
    """Return what is told by key: ``C`` what a file holds, ``S`` its figures, ``N`` why not."""
    told: dict[str, Told] = {}
    texts: dict[str, str] = {}
    key = ""
    for line in out.decode("utf-8", "replace").split("\n"):
        if line.startswith(">"):
            texts[key] = texts.get(key, "") + line[1:] + "\n"
        elif line.startswith("C "):
            key = line[2:]
        elif line.startswith(("S ", "N ")):
            name, _, rest = line[2:].partition("|")
            told[name] = _figures(rest) if line[0] == "S" else _refused(rest)
    return {name: each._replace(text=texts.get(name, "")) for name, each in told.items()}


def _figures(told: str) -> Told:
    fields = told.split("|")
    if len(fields) != _FIELDS or not all(each.lstrip("-").isdigit() for each in fields[1:]):
        return _refused(told)
    kind, (size, mtime, inode, uid) = fields[0], map(int, fields[1:])
    return Told(Stat(kind.startswith("regular"), size, float(mtime), inode, uid))


def _refused(told: str) -> Told:
    if told.strip() in _ABSENT:
        return Told()
    denied = told.strip() == "Permission denied"
    kind = ErrorKind.PERMISSION if denied else ErrorKind.BAD_ANSWER
    text = clean(told, 160) or "it changed while it was read"
    return Told(problem=Problem(kind=kind, message=text))
