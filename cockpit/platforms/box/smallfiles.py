"""The small files of a job on a host, from what ``words.files`` prints of them. Pure."""

from __future__ import annotations

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
    log_path: str | None = None
    problem: Problem | None = None


def job_files(out: bytes, job: JobSpec) -> JobFiles:
    """Return the files of a job as its host tells them."""
    seen, log_path = _read(out)
    places = {"pid": job.pid_file, "exit": job.exit_file, "marker": job.done_marker, "log": job.log}
    asked = {key: place for key, place in places.items() if place is not None}
    silent = Problem(kind=ErrorKind.BAD_ANSWER, message="its host does not tell of it")
    troubles = [
        Problem(kind=each.kind, message=f"{asked[key]}: {each.message}")
        for key in asked
        if (each := seen.get(key, Told(problem=silent)).problem) is not None
    ]
    pid, exit_file = seen.get("pid", Told()), seen.get("exit", Told())
    marker, log = seen.get("marker", Told()).stat, seen.get("log", Told()).stat
    return JobFiles(
        None if pid.stat is None else _pid(pid, job.pid_file, pid.stat),
        None if exit_file.stat is None else _exit(exit_file, job.exit_file, exit_file.stat),
        None if marker is None else marker.mtime,
        log,
        log_path,
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


def _read(out: bytes) -> tuple[dict[str, Told], str | None]:
    seen: dict[str, Told] = {}
    key, log_path = "", None
    for line in out.decode("utf-8", "replace").splitlines():
        if line.startswith(">") and key in seen:
            seen[key] = seen[key]._replace(text=seen[key].text + line[1:] + "\n")
        elif line.startswith("@"):
            log_path = line[1:]
        elif (sign := line.partition("|"))[0] in ("pid", "exit", "marker", "log") and sign[1]:
            key = sign[0]
            seen[key] = _seen(sign[2])
    return seen, log_path


def _seen(told: str) -> Told:
    fields = told.split("|")
    if len(fields) == _FIELDS and all(each.lstrip("-").isdigit() for each in fields[1:]):
        kind, (size, mtime, inode, uid) = fields[0], map(int, fields[1:])
        return Told(Stat(kind.startswith("regular"), size, float(mtime), inode, uid))
    if told.rstrip().endswith(_ABSENT):
        return Told()
    denied = told.rstrip().endswith("Permission denied")
    kind_of = ErrorKind.PERMISSION if denied else ErrorKind.BAD_ANSWER
    text = "permission denied" if denied else clean(told, 160) or "nothing is told of it"
    return Told(problem=Problem(kind=kind_of, message=text))
