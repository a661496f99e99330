"""A host as its agent describes it, and which of its processes is a run's job.

A job is known by its pid file, its session or its command line. The pid file outweighs the other
ways. A session that holds nothing but a shell that waits for a person proves neither that the job
lives nor that it ended.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import Ask, ask
from cockpit.model.facet import Problem, kind_of
from cockpit.model.observed import Disk
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.belonging import Candidate, Sure, belongs
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.files import (
    MOST,
    BadNote,
    ExitNote,
    PidNote,
    exit_note,
    pid_note,
)
from cockpit.platforms.local.lineage import Recorded, name_of, noted, topmost
from cockpit.platforms.local.marks import RunMarks, locks_of, outputs_of
from cockpit.platforms.local.programs import FOLLOWERS, inner, is_shell, program
from cockpit.platforms.local.recorded import identify
from cockpit.platforms.local.sight import Identity, Places, Sight, Who, on_its_host
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


def shared_by(disks: Mapping[Place, Disk | Problem]) -> dict[Place, str | None]:
    """Return from where the disk of each place is mounted, if from a network; else ``None``.

    A place whose disk is not known is left out.
    """
    return {place: disk.shared for place, disk in disks.items() if isinstance(disk, Disk)}


class HostPlaces(Places):
    """``links`` are where the host's own places lead (``led``), ``logs`` when they were written.

    ``disks`` tell from where the disks are mounted that hold pid files, by their folders; ``None``
    is a disk of its own. ``marks`` were found out before, by the same links.
    """

    def __init__(
        self,
        links: Mapping[Place, str] | None = None,
        logs: Mapping[str, JobFiles] | None = None,
        disks: Mapping[Place, str | None] | None = None,
        marks: dict[str, RunMarks] | None = None,
    ) -> None:
        super().__init__()
        self._links = links or {}
        self._logs = logs or {}
        self._disks = disks or {}
        self.marks = {} if marks is None else marks
        self._real: dict[str, str] = {}
        for place, real in self._links.items():
            self._real.setdefault(place.path, real)

    def spellings(self, run: RunSpec, place: Place) -> tuple[str, ...]:
        """Return a path as it is written, and with its links followed: of those the whole paths."""
        if not on_its_host(run, place):
            return ()
        found = (posixpath.normpath(place.path), self._links.get(place))
        whole = (path for path in found if path and path.startswith("/"))
        return tuple(dict.fromkeys(whole))

    def real(self, path: str) -> str:
        """Return a path with its links followed, where that is known."""
        return self._real.get(path) or posixpath.normpath(path)

    def log_moved(self, run: RunSpec) -> float | None:
        """Return when the run's log was last written, by the host's clock."""
        seen = self._logs.get(run.name)
        return None if seen is None or seen.log is None else seen.log.mtime

    def shared(self, run: RunSpec) -> str | None:
        """Return on what disk that other machines mount too a run's pid file lies, if on one."""
        source = None if (folder := pid_folder(run)) is None else self._disks.get(folder)
        return None if source is None else f"{source}, a network file system"


def pid_folder(run: RunSpec) -> Place | None:
    """Return the folder of a run's pid file, if it has one."""
    return None if run.job is None else folder_of(run.job.pid_file)


def folder_of(place: Place | None) -> Place | None:
    """Return the folder in which a file lies."""
    if place is None:
        return None
    return Place(place.scheme, place.host, posixpath.dirname(place.path) or ".")


def places_of(run: RunSpec) -> list[Place]:
    """Return the run's places on its host whose links are worth following."""
    job = run.job
    folders = [run.wandb.dir if run.wandb is not None else None, run.output_root]
    folders.append(pid_folder(run))
    folders.append(None if job is None else job.workdir)
    found = [*(place for place in folders if place is not None), *outputs_of(run)]
    return [place for place in dict.fromkeys(found) if on_its_host(run, place)]


def led(runs: Sequence[RunSpec], links: Mapping[Place, str]) -> dict[Place, str]:
    """Return of ``links`` what these runs' places on their host lead to."""
    places = (place for run in runs for place in places_of(run))
    return {place: links[place] for place in places if place in links}


def words_of(run: RunSpec, links: Mapping[Place, str]) -> list[str]:
    """Return what the environment or an open file of a job of this run holds."""
    roots = [run.output_root] if run.output_root is not None else []
    places = [place for place in (*roots, *outputs_of(run)) if on_its_host(run, place)]
    paths = [path for place in places for path in (place.path, links.get(place))]
    wandb_id = None if run.wandb is None else run.wandb.run_id
    ids = [f"WANDB_RUN_ID={wandb_id}", f"run-{wandb_id}.wandb"] if wandb_id else []
    whole = (path for path in paths if path and path.startswith("/") and path != "/")
    return [*whole, *ids, *locks_of(run)]


_MANAGERS: Final = ("tmux", "screen")


class Multiplexed(NamedTuple):
    """The sessions of a host; ``None``: neither tmux nor screen is there to tell."""

    panes: tuple[Session, ...] | None
    problem: Problem | None = None


class Found(NamedTuple):
    """The process that stands for the job; ``id`` where that is not its process id.

    ``status`` is the exit status that a dead pane has kept. ``absent`` says what was looked for
    and not found.
    """

    note: PidNote | BadNote | None = None
    who: Identity = Identity(Who.GONE)
    id: str | None = None
    status: int | None = None
    absent: str = ""
    idle: str = ""
    """Why what was found is no job, where that is known: another process may be."""

    @property
    def recorded(self) -> Recorded:
        """The same for who asks what lives of the lineage."""
        note = self.note if isinstance(self.note, PidNote) else None
        if isinstance(self.note, BadNote):
            return Recorded(trouble=f"{self.note.reason}; if nothing is running, remove the file")
        if self.who.who is Who.UNSURE:
            return Recorded(note, trouble=self.who.text)
        pid = note.pid if note is not None and self.who.who is Who.SAME else None
        return Recorded(note, pid)


def by_pid_file(run: RunSpec, files: JobFiles, sight: Sight) -> Found:
    """Return the process that a pid file means."""
    if not isinstance(files.pid, PidNote):
        return Found(files.pid)
    return Found(files.pid, identify(run, files.pid, sight, sight.now))


def by_session(job: JobSpec, session: str, found: Multiplexed, sight: Sight) -> Found:
    """Return what runs in a session; tmux and screen names are compared whole."""
    name = f"session:{session}"
    if found.problem is not None:
        return Found(who=Identity(Who.UNSURE, found.problem.message), id=name)
    if found.panes is None:
        text = f"neither tmux nor screen is installed on {job.host}"
        return Found(who=Identity(Who.UNSURE, text), id=name)
    spellings = (session, session.replace(".", "_").replace(":", "_"))
    panes = [pane for pane in found.panes if pane.name in spellings]
    if not panes:
        return Found(id=name, absent=f"no session {session} on {job.host}")
    alive = [pane for pane in panes if not pane.dead]
    note = _note((alive or panes)[0], sight)
    if not alive:
        codes = [pane.status for pane in panes if pane.status is not None]
        status = next((code for code in codes if code), 0) if codes else None
        gone = Identity(Who.GONE, f"the session {session} holds a dead pane")
        return Found(note, gone, name, status)
    if any(_works(pane, sight) for pane in alive):
        return Found(note, Identity(Who.SAME), name)
    followers = [one for pane in alive for one in _followers(pane, sight)]
    only = name_of(followers[0].argv) if followers else "a shell"
    idle = f"session {session} is there, but only {only} runs in it"
    if followers and job.log is not None and not any(job.log.path in one.argv for one in followers):
        return Found(id=name, absent=f"{idle}, which follows another file than this run's log")
    text = f"{idle}: cannot tell whether the job is over"
    return Found(note, Identity(Who.UNSURE, text), name, idle=idle)


def _note(pane: Session, sight: Sight) -> PidNote:
    process = sight.processes.get(pane.pid)
    started = None if process is None else sight.started_at(process)
    since = pane.created if pane.created is not None else started
    ticks = None if process is None else process.ticks
    return PidNote(pane.pid, since, None, since or sight.now, ticks=ticks)


def _works(pane: Session, sight: Sight) -> bool:
    """Tell whether anything but a waiting shell runs in a pane; what cannot be seen may."""
    members = sight.below(pane.pid)
    if not members:
        return True
    return any(
        not (_waits(one) or _follows(one) or program(one.argv).lower() in _MANAGERS)
        for one in members
    )


def _followers(pane: Session, sight: Sight) -> list[Process]:
    """Return the processes in a pane that only follow what others write."""
    return [one for one in sight.below(pane.pid) if _follows(one)]


def _follows(process: Process) -> bool:
    """Tell whether a process only shows what others write: no job, whatever session it is in."""
    words = inner(process.argv)
    return bool(words) and program(words) in FOLLOWERS


def _waits(process: Process) -> bool:
    """Tell whether a process is a shell that was given nothing to run."""
    rest = process.argv[1:]
    return is_shell(process.argv) and all(word.startswith("-") and word != "-c" for word in rest)


def by_lineage(run: RunSpec, candidates: Sequence[Candidate], sight: Sight) -> Found:
    """Return the oldest process that writes to the run, where the run file names no other way."""
    marks = sight.marks(run, None)
    found = [
        one.process
        for one in candidates
        if (what := belongs(marks, one, sight.files)) is not None and what.sure is Sure.YES
    ]
    tops = sorted(topmost(found, sight), key=lambda one: (one.ticks, one.pid))
    if not tops:
        return Found(absent="no process writes to the run's output root or W&B id")
    return Found(noted(tops[0], sight, sight.now), Identity(Who.SAME))
