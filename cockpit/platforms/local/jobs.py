"""The jobs of a machine, near or far: one look at it for all of its runs (SPEC S-4, S-5, SPEC J).

A job is known by files, which the wrapper that started the training command writes:

* ``pid_file``, written atomically at the start::

      12345
      start=1795249501.37
      ticks=4711842
      launch_id=my-run-i003

  The first line is the process id of the *training command* (not of the wrapper), which is
  what must be alive. ``ticks=`` is its start as field 22 of ``/proc/PID/stat`` tells it; with
  ``boot=`` and ``machine=`` it decides whether the process is still the same one, since setting
  the machine's clock does not move it. ``start=`` is the same in seconds since the epoch, as
  ``process_facts(pid).started_at`` gives it. Without ``ticks=`` the evidence decides, and the
  file's own time proves nothing (``recorded``). ``launch_id=`` is optional.
  ``log=inode:byte:checksum`` tells where the job's first line stands in its log. Unknown
  ``key=value`` lines are ignored, so that other tools may add theirs.
* ``exit_file``, written atomically after the end: one integer, the exit status (``-9`` and
  ``137`` both mean "killed by signal 9").
* ``done_marker``: any file that exists only after success.

The recorded process, as long as it lives, outweighs any file. A relaunch writes a new
``pid_file``: exit files and markers that were written before it are those of the former job.

Everything is compared by the machine's own clock and given on ours. A job is gone without an exit
status only while its machine answers; what it did not answer in time is unknown.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import cockpit.hosts.acting
import cockpit.hosts.walking  # noqa: F401 - their functions are calls of the agent
from cockpit.hosts.agent import ENVIRONMENTS
from cockpit.hosts.link import DEADLINE, PATIENCE, Link, ask
from cockpit.hosts.notes import BELOW, RUNNING
from cockpit.hosts.supervisor import SUPERVISES
from cockpit.model.clock import Clock, OtherClock, machine_time
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Live, LiveJob, Query
from cockpit.model.observed import STARTING, JobValue, Phase
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import words_of as command_words
from cockpit.platforms.local import finding, lineage
from cockpit.platforms.local.belonging import LINEAGE
from cockpit.platforms.local.census import MOST, Process
from cockpit.platforms.local.family import starts_again
from cockpit.platforms.local.files import (
    LAUNCHES_READ,
    NOTES,
    JobFiles,
    PidNote,
    files_ask,
    job_files,
    launched_elsewhere,
)
from cockpit.platforms.local.handing import hands_over
from cockpit.platforms.local.host import disk_asks, disks_of, shared_by
from cockpit.platforms.local.judging import (
    GONE,
    PROCESS_TABLE,
    STOP_STATES,
    LogsGoingOn,
    Seen,
    StoppedSince,
    doubted,
    ended_as,
    judge,
    launched_at,
    source_of,
    whose,
    without_trace,
    workers,
)
from cockpit.platforms.local.launching import launches_place, root_on_host
from cockpit.platforms.local.marks import RunMarks
from cockpit.platforms.local.sight import (
    ABOUT,
    ALL_PROCESSES,
    HostPlaces,
    Sight,
    Who,
    led,
    pid_folder,
    places_of,
    processes_ask,
    seen_by,
    words_of,
)
from cockpit.runtime.offload import Call, Outcome, offload, offload_each

FRESH: Final = 30.0
"""Seconds for which ``doctor`` takes what was just looked at, and does not ask the host again."""
REAP_WAIT: Final = 1.0
"""Seconds that a wrapper is given to write the exit status of a process that has ended."""
REAP_LOOK: Final = 0.05
"""Seconds between looks for it on this machine; far away there is one, at the end."""
JUDGING: Final = 4.0
"""Seconds for finding out from what was answered whose processes they are."""


@dataclass(frozen=True)
class View:
    """What one look at a machine has answered about its runs."""

    sight: Sight
    files: Mapping[str, JobFiles | Problem]
    sessions: finding.Multiplexed
    launches: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @cached_property
    def around(self) -> lineage.Around:
        """All processes that may be somebody's job."""
        return lineage.Around(lineage.candidates_of(self.sight), self.sight)


@dataclass(frozen=True)
class _Job:
    """A run's job as it was found in a view."""

    found: finding.Found
    files: JobFiles
    seen: Seen


class ProcessJobs:
    """Observes the jobs of machines; remembers which ones it has seen alive."""

    def __init__(
        self, clock: Clock, link_to: Callable[[str], Link], reap_wait: float = REAP_WAIT
    ) -> None:
        self._clock = clock
        self._link_to = link_to
        self._reap_wait = reap_wait
        self._links: dict[Place, str] = {}
        self._disks: dict[Place, str | None] = {}
        """From where the disks of pid files are mounted, by folder, as far as that is known."""
        self._marks: dict[str, RunMarks] = {}
        """What the jobs of each run are known by, for as long as it is the same run and links."""
        self._machines: dict[str, str] = {}
        self._clocks: dict[str, OtherClock] = {}
        self._alive: dict[tuple[str | None, ...], finding.Found] = {}
        """What was seen to live, by run and by where and how it was looked for (``_sought``)."""
        self._over: dict[str, Place | None] = {}
        """Runs whose job was found not to live, each with the note of its launch."""
        self._gone: dict[str, str | None] = {}
        self._spoken: dict[str, str | None] = {}
        self._since: dict[tuple[str, str, str], float | None] = {}
        self._lives: dict[str, Live] = {}
        self._pids: dict[str, int | None] = {}
        self._stops = StoppedSince()
        self._logs = LogsGoingOn()
        self._newest: dict[str, tuple[float, frozenset[str], View | Problem]] = {}
        """Of each host when it was looked at (monotonic), for which runs, and what was seen."""

    async def observe(self, host: str, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run of a host, by name.

        The exit codes of W&B's exit records are not dated, and after a relaunch they are the
        former job's: a living process outweighs them.
        """
        queries = [query for query in queries if query.run.job is not None]
        runs = [query.run for query in queries]
        if not runs:
            return {}
        view = await self.look(host, runs)
        self._newest[host] = (
            self._clock.monotonic(), frozenset(query.name for query in queries), view
        )  # fmt: skip
        facets = await self._judged(host, queries, view)
        loop = asyncio.get_running_loop()  # a writer takes real time, whatever the clock says
        until, looks = loop.time() + self._reap_wait, 0
        while gone := {query.name: query for query in queries if self._is_new(query, facets)}:
            specs = [query.run.job for query in gone.values() if query.run.job is not None]
            late = any(job.exit_file or job.session for job in specs)  # it may be on its way
            if looks and not (late and loop.time() < until):
                self._gone |= {name: _id(facets[name]) for name in gone}
                break
            if late:
                pause = REAP_LOOK if self._link_to(host).here else self._reap_wait
                await asyncio.sleep(pause)
            looks += 1
            view = await self.look(host, runs)
            facets = await self._judged(host, queries, view)
        if isinstance(view, Problem):
            return facets
        spoken = {name: self._once_spoken(name, facet) for name, facet in facets.items()}
        # The others of each job's lineage that live (C-25). Where a disk hangs that has to be asked
        # for that, those seen last are named.
        with suppress(TimeoutError):
            key = (_lives, tuple(run.name for run in runs))
            self._lives |= await offload(_lives, tuple(runs), view, deadline=JUDGING, key=key)
        return {
            name: self._rivalled(name, facet, self._lives.get(name, Live()), view)
            for name, facet in spoken.items()
        }

    def _is_new(self, query: Query, facets: Mapping[str, Facet[JobValue]]) -> bool:
        """Tell whether a job is found gone for the first time: it is looked at once more.

        It may have begun after the processes were listed, or its status may be on its way.
        """
        facet = facets[query.name]
        gone = facet.value is not None and facet.value.state == GONE
        return gone and self._gone.get(query.name, "") != _id(facet)

    async def seen(self, host: str, runs: Sequence[RunSpec]) -> View | Problem:
        """Return what was just seen of these runs' jobs, else look."""
        at, names, view = self._newest.get(host, (float("-inf"), frozenset(), None))
        fresh = self._clock.monotonic() - at < FRESH and names >= {run.name for run in runs}
        return view if view is not None and fresh else await self.look(host, runs)

    async def live(self, host: str, runs: Sequence[RunSpec]) -> dict[str, Live]:
        """Return what lives of each run's lineage on a host."""
        view = await self.look(host, runs, anew=True)
        if isinstance(view, Problem):
            return {run.name: Live(unknown=view.message) for run in runs}
        try:
            found = await offload(_lives, tuple(runs), view, deadline=DEADLINE, key=object())
        except TimeoutError as error:
            text = f"cannot tell whose processes they are: {error}"
            return {run.name: Live(unknown=text) for run in runs}
        return {name: _on_our_clock(each, view.sight) for name, each in found.items()}

    async def look(
        self, host: str, runs: Sequence[RunSpec], *, anew: bool = False
    ) -> View | Problem:
        """Return what a host answers about its runs, or why it answers nothing. One trip to it.

        Another one goes before where links are not known yet, or are to be followed ``anew``.
        """
        link = self._link_to(host)
        if link.here:
            processes = ALL_PROCESSES
        else:
            await self._follow(link, runs, anew=anew)
            marks = [word for run in runs for word in words_of(run, self._links)]
            most = MOST if anew else ENVIRONMENTS  # before an action no rival may be missing
            processes = processes_ask((f"{LINEAGE}=", f"{SUPERVISES}=", *marks), marks, most)
        over = dict(self._over)
        files = {run.name: files_ask(run, over.get(run.name)) for run in runs}
        lacking = f"machine={self._machines.get(host, '-')}\n"
        folders = {
            run.name: root.below(*BELOW.parts)
            for run in runs
            if run.name not in over and (root := root_on_host(run)) is not None
        }
        launches = {
            name: ask(
                f"the launches in {folder.path}", "texts", folder=folder.path, most=LAUNCHES_READ,
                holding=f"state={RUNNING}\n", lacking=lacking,
            )
            for name, folder in folders.items()
        }  # fmt: skip
        panes = finding.PANES if any(run.job and run.job.session for run in runs) else ()
        asks = [ABOUT, processes, *panes, *files.values(), *launches.values()]
        sent = machine_time(self._clock)
        patience = DEADLINE if anew else PATIENCE  # before an action the whole answer counts
        answers = await link.ask(asks, patience=patience)
        about, listed = answers[ABOUT], answers[processes]
        for each in (about, listed):
            if isinstance(each, Problem):
                return each
        clock = self._clocks.setdefault(host, OtherClock())
        ahead = clock.heed(about["now"], sent, machine_time(self._clock))
        self._machines[host] = str(about["machine"])
        said = {run.name: (run, answers[files[run.name]]) for run in runs}
        found = {
            name: each if isinstance(each, Problem) else job_files(run, each, over.get(name))
            for name, (run, each) in said.items()
        }
        logs = {name: each for name, each in found.items() if isinstance(each, JobFiles)}
        places = HostPlaces(led(runs, self._links), logs, self._disks, self._marks)
        sight = seen_by(link, about, listed, places, self._clock.now(), ahead)
        noted = {name: answers[each] for name, each in launches.items()}
        known_notes = {name: each for name, each in noted.items() if not isinstance(each, Problem)}
        return View(sight, found, finding.multiplexed(answers), known_notes)

    async def _follow(self, link: Link, runs: Sequence[RunSpec], *, anew: bool) -> None:
        """Find out where links lead that are not known yet: once, and ``anew`` before an action.

        A folder that was not there at the first look may be a link by now, or lead elsewhere.
        """
        places = dict.fromkeys(place for run in runs for place in places_of(run))
        new = [place for place in places if anew or place not in self._links]
        if not new:
            return
        links = {place: ask(f"the links of {place.path}", "real", path=place.path) for place in new}
        folders = {pid_folder(run) for run in runs}
        disks = disk_asks(place for place in new if place in folders)
        answers = await link.ask([*links.values(), *disks.values()])
        self._disks |= shared_by(disks_of(disks, answers))
        for place, asked in links.items():
            real = answers[asked]
            if isinstance(real, str) and self._links.get(place) != real:
                self._links[place] = real
                self._marks.clear()

    async def _judged(
        self, host: str, queries: Sequence[Query], view: View | Problem
    ) -> dict[str, Facet[JobValue]]:
        """Return what the files and processes of each job say, by run name."""
        now, link = self._clock.now(), self._link_to(host)
        if isinstance(view, Problem):
            facet: Facet[JobValue] = unknown(view.kind, view.message, link.host, now)
            return {query.name: facet for query in queries}
        calls = [
            Call(partial(self._found, query.run, view), (_found, query.run.job))
            for query in queries
        ]
        outcomes = await offload_each(calls, deadline=JUDGING)
        found = dict(zip((query.name for query in queries), outcomes, strict=True))
        await self._look_at_stopped(link, view, found.values())
        return {query.name: self._one(query, found[query.name], view, now) for query in queries}

    async def _look_at_stopped(
        self, link: Link, view: View, found: Iterable[Outcome[_Job | Problem]]
    ) -> None:
        """Ask about jobs that were stopped when they were listed: one that is traced often is."""
        stopped: dict[int, Process] = {}
        for outcome in found:
            job = None if outcome.error is not None else outcome.value
            for one in job.seen.members if isinstance(job, _Job) else ():
                if one.state in STOP_STATES:
                    stopped[one.pid] = one
                else:
                    self._stops.forget(view.sight, one)
        if stopped:
            asked = ask("its stopped processes", "stops", pids=sorted(stopped))
            said = (await link.ask([asked]))[asked]
            self._stops.note(view.sight, stopped.values(), said)

    def _found(self, run: RunSpec, view: View) -> _Job | Problem:
        """Return a run's job as it was found in a view. Blocking."""
        job, files, host = run.job, view.files[run.name], view.sight
        assert job is not None
        problem = files if isinstance(files, Problem) else files.problem
        if isinstance(files, Problem) or problem is not None:
            assert problem is not None
            return problem
        found = _found(run, view, files)
        size, at = (0, None) if files.log is None else (files.log.size, files.log.mtime)
        seen = Seen(found.note, found.who, files.exit, files.marker_at, size, at)
        note = found.note if isinstance(found.note, PidNote) else None
        if found.who.who is not Who.SAME or note is None:
            self._over[run.name] = _launch_note(run, note)
            if at is not None:
                self._logs.note(run.name, note, at, host.now)
            return _Job(found, files, seen._replace(noted=files.noted_exit(note)))
        self._alive[_sought(run)] = found
        self._over.pop(run.name, None)
        self._logs.forget(run.name)
        process = host.processes.get(note.pid)
        if process is None:
            return _Job(found, files, seen)
        key = (str(host.about["machine"]), str(process.pid), str(process.ticks))
        started = self._since.setdefault(key, host.started_at(process))
        seen = seen._replace(
            started=started,
            ticks=process.ticks,
            members=tuple(workers(host.below(process.pid))),
            again=starts_again(
                host.processes, process.pid, host.children, here=host.places.here, known=host.again
            ),
        )
        notes = view.launches.get(run.name, ())
        since = launched_at(seen)
        return _Job(
            found, files, seen._replace(elsewhere=launched_elsewhere(notes, host.machine, since))
        )

    def _one(
        self, query: Query, outcome: Outcome[_Job | Problem], view: View, now: float
    ) -> Facet[JobValue]:
        """Return what is believed of a job, on our clock."""
        run, host, job = query.run, view.sight, query.run.job
        assert job is not None
        try:
            found = outcome.value
        except TimeoutError as error:
            text = f"cannot tell whose process it is: {error}"
            found = Problem(kind=ErrorKind.TIMEOUT, message=text)
        if isinstance(found, Problem):
            return unknown(found.kind, found.message, job.host or source_of(job), now)
        self._pids[run.name] = found.found.recorded().pid
        stopped = [one for one in found.seen.members if one.state in STOP_STATES]
        seen = found.seen._replace(stop=self._stops.of(host, stopped))
        seen = seen._replace(handed=_may_hand_over(run, by_hand=seen.noted is None))
        facet = judge(job, seen, query.exit_record, now)
        facet = self._without_trace(run, found, seen, facet, now)
        value = facet.value
        if value is not None:
            times = ("pending_since", "started_at", "ended_at")
            update = {
                **{name: host.ours(getattr(value, name)) for name in times},
                "id": found.found.id or value.id,
                "reason": value.reason or found.found.idle or None,
            }
            facet = facet.model_copy(update={"value": value.model_copy(update=update)})
        source = facet.source if job.host is None else f"{job.host}: {facet.source}"
        return facet.model_copy(update={"source": source})

    def _without_trace(
        self, run: RunSpec, found: _Job, seen: Seen, facet: Facet[JobValue], now: float
    ) -> Facet[JobValue]:
        """Return what is known of a job of which no file tells: its pane's status, or that it went.

        Whether it was ever there is told by its log, or by a former look.
        """
        lacks = facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND
        gone = facet.value is not None and facet.value.state == GONE
        if found.found.status is not None and (gone or lacks):
            return known(ended_as(seen, found.found.status, None), "dead pane", now)
        former = self._alive.get(_sought(run))
        return without_trace(facet, seen, found.found.absent, former and former.note, now)

    def _once_spoken(self, name: str, facet: Facet[JobValue]) -> Facet[JobValue]:
        """Return a job that has once written as running, though its log was rotated away."""
        value = facet.value
        if value is None:
            return facet
        if value.phase is Phase.RUNNING:
            self._spoken[name] = _id(facet)
        if value.state != STARTING or self._spoken.get(name, "") != _id(facet):
            return facet
        running = {"state": "running", "phase": Phase.RUNNING, "reason": None}
        spoken = value.model_copy(update={**running, "pending_since": None})
        return facet.model_copy(update={"value": spoken})

    def _rivalled(
        self, name: str, facet: Facet[JobValue], live: Live, view: View
    ) -> Facet[JobValue]:
        value, now = facet.value, self._clock.now()
        if value is None:
            return facet
        own = (value.id, f"pid:{self._pids.get(name)}")
        here = tuple(self._dated(job, view.sight) for job in live.jobs if job.id not in own)
        possible = tuple(self._dated(job, view.sight) for job in live.possible if job.id not in own)
        rivals = (*here, *value.rivals)
        if rivals or possible:
            source = PROCESS_TABLE if here or possible else NOTES
            update = {"rivals": rivals, "possible": possible, "rivals_source": source}
            facet = facet.model_copy(update={"value": value.model_copy(update=update)})
            if self._logs.recent(name, view.sight.now):
                facet = whose(facet, here, now)
        return self._written(name, facet, view)

    def _written(self, name: str, facet: Facet[JobValue], view: View) -> Facet[JobValue]:
        """Return a job that is gone there as unknown while its log is written all the same.

        Somebody writes it whom that machine's process table does not show.
        """
        value = facet.value
        if value is None or value.state != GONE:
            return facet
        if not self._logs.by_another(name, view.sight.now):
            return facet
        text = f"{value.reason}, but its log still grows: is it running on another machine?"
        return doubted(facet, value, text, self._clock.now())

    def _dated(self, job: LiveJob, host: Sight) -> LiveJob:
        """Return a job whose start does not move when the kernel's idea of the boot does."""
        key = (str(host.about["machine"]), job.id, job.handle.get("ticks", ""))
        started = self._since.setdefault(key, job.started_at)
        return job.model_copy(update={"started_at": host.ours(started)})


def _sought(run: RunSpec) -> tuple[str | None, ...]:
    """Return what is looked for: another host or another name may be another job's."""
    job = run.job
    return (run.name,) if job is None else (run.name, job.host, job.session, job.match)


def _launch_note(run: RunSpec, note: PidNote | None) -> Place | None:
    """Return where the launch of a pid file is noted, if that is known."""
    folder, launch_id = launches_place(run), None if note is None else note.launch_id
    if folder is None or not launch_id or "/" in launch_id:
        return None
    return folder.below(launch_id)


def _id(facet: Facet[JobValue]) -> str | None:
    return None if facet.value is None else facet.value.id


def _may_hand_over(run: RunSpec, *, by_hand: bool) -> bool:
    """Tell whether a command of the run file ends once another program has its job.

    ``by_hand``: no launch of ours is noted. Then one that names the exit file itself has the job
    write it: ``tmux new -d 'python train.py; echo $? > run.exit'``.
    """
    place = None if run.job is None or not by_hand else run.job.exit_file
    own = "" if place is None else posixpath.basename(place.path)
    for command in (run.launch, run.resubmit):
        with suppress(CommandError):
            words = () if command is None else command_words(command)
            writes = bool(own) and any(own in word for word in words)
            if hands_over(words) and not writes:
                return True
    return False


def _found(run: RunSpec, view: View, files: JobFiles) -> finding.Found:
    """Return the process that stands for a run's job, by the first way that it names."""
    job, sight = run.job, view.sight
    assert job is not None
    if job.pid_file is not None and (files.pid is not None or not (job.session or job.match)):
        return finding.by_pid_file(run, files, sight)
    if job.session is not None:
        found = finding.by_session(job, job.session, view.sessions, sight)
        if not found.idle:
            return found
        beside = finding.by_lineage(run, view.around.of(run, lineage.Recorded()), sight)
        return found if beside.note is None else beside._replace(idle=found.idle)
    if job.match is not None:
        where = "here" if job.host is None else f"on {job.host}"
        return finding.by_match(run, job.match, sight, sight.now, where)
    if job.host is None:
        return finding.Found()
    return finding.by_lineage(run, view.around.of(run, lineage.Recorded()), sight)


def _lives(runs: Sequence[RunSpec], view: View) -> dict[str, Live]:
    """Return what lives of each run's lineage, by run name. Blocking."""
    found = {}
    for run in runs:
        recorded = _recorded(run, view)
        found[run.name] = lineage.live_of(run, view.sight, view.around.of(run, recorded), recorded)
    return found


def _on_our_clock(live: Live, host: Sight) -> Live:
    """Return what lives with its starts on our clock."""
    kinds = ("jobs", "possible", "spared", "leftovers")
    return live.model_copy(
        update={
            kind: tuple(
                job.model_copy(update={"started_at": host.ours(job.started_at)})
                for job in getattr(live, kind)
            )
            for kind in kinds
        }
    )


def _recorded(run: RunSpec, view: View) -> lineage.Recorded:
    """Return whom the run file names as the job, or why that cannot be told."""
    files = view.files[run.name]
    if isinstance(files, Problem):
        return lineage.Recorded(trouble=files.message)
    if files.unread is not None:
        return lineage.Recorded(trouble=f"cannot read {files.unread.message}")
    if run.job is None:
        return lineage.Recorded()
    found = _found(run, view, files)
    noted = found.note is not None and found.note is files.pid
    return found.recorded(run.job.pid_file if noted else None)
