"""A host as those see it who tell whose its processes are (``platforms.local.recorded``)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.platforms.box.machine import Host
from cockpit.platforms.box.smallfiles import JobFiles
from cockpit.platforms.local.belonging import Candidate, Files, candidate_of
from cockpit.platforms.local.census import Census, Children, Process
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.marks import RunMarks, marked, started_in
from cockpit.runtime.process import Machine


@dataclass
class HostSight:
    """``links`` are where its own places lead (``led``); ``logs`` what is known of each log."""

    host: Host
    links: Mapping[Place, str]
    logs: Mapping[str, JobFiles] = field(default_factory=dict)
    known: dict[str, RunMarks] = field(default_factory=dict)
    """The marks of runs that were found out before, by the same links."""
    disks: Mapping[Place, str | None] = field(default_factory=dict)
    """From where the disks are mounted that hold pid files, by their folders; ``None``: its own."""
    _candidates: dict[int, Candidate] = field(default_factory=dict)
    _real: dict[str, str] | None = None

    @property
    def processes(self) -> Census:
        """Every process of the host."""
        return self.host.processes

    @property
    def own(self) -> set[int]:
        """The probe's own."""
        return self.host.own

    @property
    def files(self) -> Files:
        """What they have open that names a run of ours."""
        return self.host.files

    @property
    def uid(self) -> int:
        """Who we are there."""
        return self.host.uid

    @property
    def machine(self) -> Machine:
        """Where its process ids count."""
        return self.host.machine

    def started_at(self, process: Process) -> float | None:
        """Return when a process started, by the host's clock."""
        return self.host.started_at(process)

    def below(self, pid: int) -> list[Process]:
        """Return a process and all that descends from it, itself first."""
        return self.host.below(pid)

    @property
    def children(self) -> Children:
        """Whom each process has started."""
        return self.host.children

    def candidate(self, process: Process) -> Candidate:
        """Return a process as one that may be a job, found out once in this look."""
        found = self._candidates.get(process.pid)
        if found is None:
            found = self._candidates[process.pid] = candidate_of(process)
        return found

    def marks(self, run: RunSpec, note: PidNote | None) -> RunMarks:
        """Return what a run's jobs are known by on the host."""
        marks = self.known.get(run.name)
        if marks is None or marks.run is not run or marks.uid != self.uid:
            marks = self.known[run.name] = self._marked(run)
        return marks._replace(recorded=note)

    def _marked(self, run: RunSpec) -> RunMarks:
        root = [run.output_root] if run.output_root is not None else []
        wandb = run.wandb.dir if run.wandb is not None else None
        folders = tuple(self._paths(run, [] if wandb is None else [wandb]))
        marks = marked(
            run,
            None,
            tuple(self._paths(run, root)),
            tuple(self._paths(run, outputs_of(run))),
            folders[-1] if folders else None,
            self.uid,
        )
        job = run.job
        logs = [] if job is None or job.log is None else [job.log]
        workdir = (None if job is None else job.workdir) or run.workdir
        folders = tuple(self._paths(run, [] if workdir is None else [workdir]))
        return started_in(marks, folders)._replace(here=False, logs=tuple(self._paths(run, logs)))

    def _paths(self, run: RunSpec, places: list[Place]) -> Iterator[str]:
        """Yield these places as paths of the host: as written, and with their links followed."""
        for place in places:
            if on_its_host(run, place):
                plain, real = posixpath.normpath(place.path), self.links.get(place)
                known = (plain if plain.startswith("/") else None, real)
                yield from dict.fromkeys(path for path in known if path)

    def real(self, path: str) -> str:
        """Return a path with its links followed, where that is known."""
        if self._real is None:
            self._real = {}
            for place, real in self.links.items():
                self._real.setdefault(place.path, real)
        return self._real.get(path) or posixpath.normpath(path)

    def log_moved(self, run: RunSpec) -> float | None:
        """Return when the run's log was last written, by the host's clock."""
        seen = self.logs.get(run.name)
        return None if seen is None or seen.log is None else seen.log.mtime

    def shared(self, run: RunSpec) -> str | None:
        """Return on what disk that other machines mount too a run's pid file lies, if on one."""
        source = None if (folder := pid_folder(run)) is None else self.disks.get(folder)
        return None if source is None else f"{source}, a network file system"

    def may_signal(self, process: Process) -> bool:
        """Tell whether the process is ours, or we are root there."""
        return self.uid in (0, process.uid)


def outputs_of(run: RunSpec) -> list[Place]:
    """Return the places that only a job of the run writes to, beside its output root."""
    log = run.job.log if run.job is not None else None
    plain = [log] if log is not None and "*" not in log.path else []
    return [*plain, *(run.checkpoints.path if run.checkpoints is not None else ())]


def on_its_host(run: RunSpec, place: Place) -> bool:
    """Tell whether a place lies on the host where the run's job is."""
    host = None if run.job is None else run.job.host
    return place.here if host is None else (place.scheme, place.host) == (SSH, host)


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
    return [*(path for path in paths if path and path.startswith("/") and path != "/"), *ids]
