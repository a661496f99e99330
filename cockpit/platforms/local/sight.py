"""A machine's processes at one moment, and what else tells whose they are (SPEC J).

``Sight`` is the same for this machine and for one behind ssh. Its ``Places`` know what is known of
the paths there: here the system is asked, elsewhere what the host has answered. Blocking.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.hosts import agent
from cockpit.hosts.link import Ask, Link, ask
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.platforms.local import census
from cockpit.platforms.local.belonging import Candidate, Files, candidate_of
from cockpit.platforms.local.family import Known
from cockpit.platforms.local.files import JobFiles, PidNote, SharedDisks
from cockpit.platforms.local.marks import (
    SCRIPT,
    Read,
    RunMarks,
    locks_of,
    marks_of,
    outputs_of,
    read_script,
)
from cockpit.platforms.local.programs import (
    is_helper,
    is_interpreter,
    is_shell,
    is_tool,
    is_wrapper,
)
from cockpit.runtime.process import PROC, Machine
from cockpit.runtime.ssh import ASKING


def on_its_host(run: RunSpec, place: Place) -> bool:
    """Tell whether a place lies on the machine where the run's job is."""
    host = None if run.job is None else run.job.host
    return place.here if host is None else (place.scheme, place.host) == (SSH, host)


class Who(Enum):
    """Whose process the recorded process id is now."""

    SAME = "same"
    OTHER = "other"
    UNSURE = "unsure"
    GONE = "gone"


class Identity(NamedTuple):
    """Whose it is, and on what that rests (one line)."""

    who: Who
    text: str = ""


class Places:
    """What is known of a machine's paths: as it is, nothing but how they are spelled."""

    here = False
    read: Read | None = None
    """Returns the text of a script, where scripts can be read."""

    def __init__(self) -> None:
        self.marks: dict[str, RunMarks] = {}
        """What the jobs of each run are known by, for as long as links lead to the same places."""

    def real(self, path: str) -> str:
        """Return a path with its links followed, as far as that is known."""
        return posixpath.normpath(path)

    def spellings(self, run: RunSpec, place: Place) -> tuple[str, ...]:
        """Return a path as it is written and with its links followed; none of another machine."""
        if not on_its_host(run, place):
            return ()
        return tuple(dict.fromkeys((posixpath.normpath(place.path), self.real(place.path))))

    def as_run(self, process: census.Process) -> census.Process:
        """Return a process with what it really runs, as far as its own words do not say it."""
        return process

    def is_renamed(self, process: census.Process) -> bool:
        """Tell whether an interpreter runs whose own words were replaced by a title."""
        return False

    def log_moved(self, run: RunSpec) -> float | None:
        """Return when the run's log was last written, by the machine's clock."""
        return None

    def shared(self, run: RunSpec) -> str | None:
        """Return on what disk that other machines mount too a run's pid file lies, if on one."""
        return None

    def may_signal(self, process: census.Process, uid: int) -> bool:
        """Tell whether this user could stop a process; one that has ended meanwhile too."""
        return uid in (0, process.uid)


class PlacesHere(Places):
    """The paths of this machine, as the system tells of them; found out once in a look."""

    here = True
    read = staticmethod(read_script)

    def __init__(self) -> None:
        super().__init__()
        self._real: dict[str, str] = {}
        self._disks = SharedDisks()

    def real(self, path: str) -> str:
        """Return a path with its links followed; those of a folder are followed once in a look."""
        folder, name = posixpath.split(path)
        if name in ("", ".", "..") or not folder.startswith("/"):
            return os.path.realpath(path)
        above = self._real.get(folder)
        if above is None:
            above = self._real[folder] = self.real(folder)
        place = posixpath.join(above, name)
        try:
            link = stat.S_ISLNK(os.lstat(place).st_mode)
        except OSError:
            link = False
        return os.path.realpath(place) if link else place

    def as_run(self, process: census.Process) -> census.Process:
        """Return a process with the interpreter and the script that it really runs.

        It may be called otherwise (``exec -a``), or read its script from its input.
        """
        argv, place = process.argv, PROC / str(process.pid)
        at = next((at for at, word in enumerate(argv) if at and SCRIPT.search(word)), None)
        try:
            if at is None:
                if is_interpreter(argv) and all(word.startswith("-") for word in argv[1:]):
                    fed = str((place / "fd" / "0").readlink())
                    if SCRIPT.search(fed) and not {"-c", "-m"}.intersection(argv):
                        return process._replace(argv=(argv[0], fed, *argv[2:]))
                return process
            if not (is_interpreter(argv) or is_shell(argv) or is_wrapper(argv)):
                exe = str((place / "exe").readlink())
                if is_interpreter([exe]):
                    return process._replace(argv=(exe, *argv[1:]))
        except OSError:
            pass
        return process

    def is_renamed(self, process: census.Process) -> bool:
        """Tell whether an interpreter runs whose own words were replaced by a title."""
        argv = process.argv
        if is_interpreter(argv) or is_tool(argv) or is_wrapper(argv) or is_helper(argv):
            return False
        try:
            exe = str((PROC / str(process.pid) / "exe").readlink())
        except OSError:
            return False
        return is_interpreter([exe]) and self.as_run(process) is process and "/" not in argv[0]

    def log_moved(self, run: RunSpec) -> float | None:
        """Return when the run's log was last written."""
        log = None if run.job is None else run.job.log
        try:
            return None if log is None else os.stat(log.path).st_mtime  # noqa: PTH116
        except OSError:
            return None

    def shared(self, run: RunSpec) -> str | None:
        """Return what network file system holds a run's pid file, if one does."""
        return self._disks.of(run)

    def may_signal(self, process: census.Process, uid: int) -> bool:
        """Tell whether we could stop a process, tried by asking the kernel."""
        if uid in (0, process.uid):
            return True
        try:
            os.kill(process.pid, 0)
        except PermissionError:
            return False
        except ProcessLookupError:
            pass
        return True


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
    place = None if run.job is None else run.job.pid_file
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


class Sight:
    """A machine's processes at one moment: ``got`` is when they were, by our clock.

    ``ahead`` are the seconds by which the machine's clock is ahead of ours. ``about`` are its facts
    as its agent tells them, ``own`` those that look and what they descend from: nobody's job.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        processes: census.Census,
        files: Files,
        own: set[int],
        places: Places | None = None,
        got: float | None = None,
        ahead: float = 0.0,
    ) -> None:
        self.about = about
        self.processes = processes
        self.files = files
        self.own = own
        self.places = places or Places()
        self.got = about["now"] if got is None else got
        self.ahead = ahead
        self.uid = int(about.get("uid", -1))
        self.again: Known = {}
        """The loops above processes that were found in this look."""
        self.identities: dict[tuple[str, PidNote], Identity] = {}
        """Whose processes the pid files of runs mean, as far as it was asked."""
        self._candidates: dict[int, Candidate] = {}

    @property
    def machine(self) -> Machine:
        """Where the process ids count."""
        told = (self.about.get(name) or None for name in ("machine", "boot", "space"))
        return Machine(None, *told)

    @property
    def boot(self) -> float | None:
        """When the machine came up, by its clock."""
        return self.about.get("btime")

    @property
    def now(self) -> float:
        """Its own clock."""
        return self.got + self.ahead

    def ours(self, at: float | None) -> float | None:
        """Return a time of its clock by ours."""
        return None if at is None else at - self.ahead

    def started_at(self, process: census.Process) -> float | None:
        """Return when a process started, by the machine's clock as it is set now."""
        boot, hertz = self.about.get("btime"), self.about["hz"]
        if boot is None or not hertz:
            return None
        return float(boot + process.ticks / hertz)

    @cached_property
    def children(self) -> census.Children:
        """Whom each process has started."""
        return census.children(self.processes)

    def below(self, pid: int) -> list[census.Process]:
        """Return a process and all that descends from it, itself first."""
        found = [self.processes[pid]] if pid in self.processes else []
        rest = sorted(census.descendants(self.processes, (pid,), self.children))
        return [*found, *(self.processes[each] for each in rest)]

    def candidate(self, process: census.Process) -> Candidate:
        """Return a process as one that may be a job, found out once in this look."""
        found = self._candidates.get(process.pid)
        if found is None:
            as_run = self.places.as_run(process)
            found = self._candidates[process.pid] = candidate_of(as_run, self.places.real)
        return found

    def marks(self, run: RunSpec, note: PidNote | None) -> RunMarks:
        """Return what a run's jobs are known by on the machine."""
        places = self.places
        marks = places.marks.get(run.name)
        if marks is None or marks.run is not run or marks.uid != self.uid:
            found = marks_of(run, self.uid, lambda place: places.spellings(run, place), places.read)
            marks = places.marks[run.name] = found._replace(here=places.here)
        return marks._replace(recorded=note)


ABOUT: Final = ask("its own facts", "about")


ALL_PROCESSES: Final = ask("its processes", "processes", environments=[""], most=census.MOST)
"""All that is told of each, but for its open files."""


def processes_ask(
    environments: Iterable[str], files: Iterable[str] = (), most: int = agent.ENVIRONMENTS
) -> Ask:
    """Return what asks for all processes.

    Their environments come where they hold one of these words (of ``most`` processes), and the
    open files whose paths hold one of ``files``.
    """
    words, paths = (sorted({each for each in given if each}) for given in (environments, files))
    return ask("its processes", "processes", environments=words, files=paths, most=most)


def sight_of(
    about: Mapping[str, Any],
    listed: Sequence[Any],
    places: Places | None = None,
    got: float | None = None,
    ahead: float = 0.0,
    *,
    here: bool = False,
    files: Files | None = None,
) -> Sight:
    """Return a machine from the agent's answers, which were ``got`` then by our clock.

    ``files`` are the open ones, where they were not asked for with the processes.
    """
    processes = census.census_of(listed)
    if files is None:
        held = {each[0]: tuple(census.OpenFile(*file) for file in each[-1]) for each in listed}
        files = Files(Path("/nowhere"), about["uid"], held)
    own = _own(processes, about["pid"], here=here)
    return Sight(about, processes, files, own, places, got, ahead)


def _own(processes: census.Census, agent: int, *, here: bool) -> set[int]:
    """Return who asks and what that descends from; elsewhere also all that it has started.

    Here that is the cockpit itself, and what it has started may be a job.
    """
    above = {one.pid for one in census.lineage_up(processes, agent)}
    if here:
        return above
    asking = {pid for pid, one in processes.items() if any(ASKING in word for word in one.argv)}
    asking.add(agent)
    return above | asking | census.descendants(processes, asking)


def seen_by(
    link: Link,
    about: Mapping[str, Any],
    listed: Sequence[Any],
    there: Places,
    got: float | None = None,
    ahead: float = 0.0,
) -> Sight:
    """Return the machine of a link from its answers; of this one the system tells the rest.

    ``there`` is what is known of the paths of another machine, ``ahead`` what of its clock.
    """
    if not link.here:
        return sight_of(about, listed, there, got, ahead)
    return sight_of(about, listed, PlacesHere(), got, here=True, files=Files(PROC))
