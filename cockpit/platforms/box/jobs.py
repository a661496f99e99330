"""The jobs of ssh hosts: one look at each host for all of its runs (SPEC S-4, SPEC J).

Everything is compared by the host's own clock and told on ours. A job is gone without an exit
status only while its host answers; what the host did not tell in time is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cockpit.hosts.agent import ENVIRONMENTS
from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, HostLink, ask
from cockpit.hosts.supervisor import SUPERVISES
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Live, LiveJob, Query, Stopped
from cockpit.model.observed import JobValue
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.box.machine import (
    SCREEN,
    TMUX,
    Found,
    HostPlaces,
    JobFiles,
    Multiplexed,
    Session,
    by_lineage,
    by_pid_file,
    by_session,
    files_ask,
    job_files,
    led,
    pid_folder,
    places_of,
    screens,
    sessions,
    shared_by,
    words_of,
)
from cockpit.platforms.local.belonging import LINEAGE
from cockpit.platforms.local.census import MOST
from cockpit.platforms.local.family import starts_again
from cockpit.platforms.local.files import FILE_SLACK, PidNote
from cockpit.platforms.local.host import disk_asks, disks_of
from cockpit.platforms.local.judging import (
    GONE,
    PROCESS_TABLE,
    STOP_STATES,
    Seen,
    Stop,
    doubted,
    ended_as,
    judge,
    source_of,
    whose,
    without_trace,
    workers,
)
from cockpit.platforms.local.lineage import Around, Recorded, by_match, candidates_of, live_of
from cockpit.platforms.local.marks import RunMarks
from cockpit.platforms.local.sight import ABOUT, Sight, Who, processes_ask, sight_of

FRESH: Final = 30.0
"""Seconds for which ``doctor`` takes what was just looked at, and does not ask the host again."""
REAP_WAIT: Final = 1.0
"""Seconds that a wrapper is given to write the exit status of a process that has ended."""
Files = dict[str, JobFiles | Problem]


@dataclass(frozen=True)
class View:
    """What one look at a host has told of its runs."""

    sight: Sight
    files: Files
    sessions: Multiplexed
    around: Around


class BoxJobs:
    """Observes the jobs of all hosts; remembers which ones it has seen alive."""

    def __init__(
        self, clock: Clock, link_to: Callable[[str], HostLink], reap_wait: float = REAP_WAIT
    ) -> None:
        self._clock = clock
        self._link_to = link_to
        self._reap_wait = reap_wait
        self._links: dict[Place, str] = {}
        self._disks: dict[Place, str | None] = {}
        """From where the disks of pid files are mounted, by folder, as far as that is known."""
        self._marks: dict[str, RunMarks] = {}
        """What the jobs of each run are known by, for as long as it is the same run and links."""
        self._alive: dict[tuple[str | None, ...], Found] = {}
        """What was seen to live, by run and by where and how it was looked for (``_sought``)."""
        self._gone: dict[str, str | None] = {}
        self._left: dict[str, float | None] = {}
        """When the log of a job that is gone was written last, as that was first seen."""
        self._stops: dict[tuple[str, int, int], float] = {}
        self._newest: dict[str, tuple[float, frozenset[str], View | Problem]] = {}
        """Of each host when it was looked at (monotonic), for which runs, and what was seen."""

    async def observe(self, host: str, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run of a host, by name."""
        view = await self.look(host, [query.run for query in queries])
        names = frozenset(query.name for query in queries)
        self._newest[host] = (self._clock.monotonic(), names, view)
        facets = self._told(host, queries, view)
        again = [query for query in queries if self._may_still_write(query, facets[query.name])]
        if again:
            await asyncio.sleep(self._reap_wait)
            view = await self.look(host, [query.run for query in again])
            facets |= self._told(host, again, view)
        return facets

    async def seen(self, host: str, runs: Sequence[RunSpec]) -> View | Problem:
        """Return what was just seen of these runs' jobs, else look."""
        at, names, view = self._newest.get(host, (float("-inf"), frozenset(), None))
        fresh = self._clock.monotonic() - at < FRESH and names >= {run.name for run in runs}
        return view if view is not None and fresh else await self.look(host, runs)

    def _may_still_write(self, query: Query, facet: Facet[JobValue]) -> bool:
        """Tell whether a job is first seen gone whose exit status may be on its way."""
        job, value = query.run.job, facet.value
        if job is None or value is None or value.state != GONE:
            return False
        if job.exit_file is None and job.session is None:
            return False
        first = self._gone.get(query.name, "") != value.id
        self._gone[query.name] = value.id
        return first

    async def live(self, host: str, runs: Sequence[RunSpec]) -> dict[str, Live]:
        """Return what lives of each run's lineage on a host."""
        view = await self.look(host, runs, anew=True)
        if isinstance(view, Problem):
            return {run.name: Live(unknown=view.message) for run in runs}
        return {run.name: self._lives(run, view) for run in runs}

    def _lives(self, run: RunSpec, view: View) -> Live:
        files = view.files[run.name]
        if isinstance(files, Problem) or files.problem is not None:
            problem = files if isinstance(files, Problem) else files.problem
            return Live(unknown=problem.message if problem is not None else "")
        return _live(run, view, _found(run, view, files))

    def _told(
        self, host: str, queries: Sequence[Query], view: View | Problem
    ) -> dict[str, Facet[JobValue]]:
        now = self._clock.now()
        if isinstance(view, Problem):
            facet = unknown(view.kind, view.message, host, now)
            return {query.name: facet for query in queries}
        return {query.name: self._judged(query, view, now) for query in queries}

    async def look(
        self, host: str, runs: Sequence[RunSpec], *, anew: bool = False
    ) -> View | Problem:
        """Return what a host tells of its runs, or why it tells nothing. One trip to it.

        Another one goes before where links are not known yet, or are to be followed ``anew``.
        """
        link = self._link_to(host)
        await self._follow(link, runs, anew=anew)
        marks = [word for run in runs for word in words_of(run, self._links)]
        most = MOST if anew else ENVIRONMENTS  # before an action no rival may be missing
        processes = processes_ask((f"{LINEAGE}=", f"{SUPERVISES}=", *marks), marks, most)
        files = {run.name: files_ask(run) for run in runs}
        panes = [TMUX, SCREEN] if any(run.job and run.job.session for run in runs) else []
        sent = self._clock.now()
        patience = DEADLINE if anew else PATIENCE  # before an action the whole answer counts
        answers = await link.ask([ABOUT, processes, *panes, *files.values()], patience=patience)
        about, listed = answers[ABOUT], answers[processes]
        for each in (about, listed):
            if isinstance(each, Problem):
                return each
        got = self._clock.now()
        found: Files = {}
        for run in runs:
            said = answers[files[run.name]]
            found[run.name] = said if isinstance(said, Problem) else job_files(run.job, said)
        logs = {name: each for name, each in found.items() if isinstance(each, JobFiles)}
        places = HostPlaces(led(runs, self._links), logs, self._disks, self._marks)
        sight = sight_of(about, listed, places, sent, got)
        return View(sight, found, _multiplexed(answers), Around(candidates_of(sight), sight))

    async def _follow(self, link: HostLink, runs: Sequence[RunSpec], *, anew: bool) -> None:
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

    def _judged(self, query: Query, view: View, now: float) -> Facet[JobValue]:
        run, host = query.run, view.sight
        job, files = run.job, view.files[run.name]
        assert job is not None
        problem = files if isinstance(files, Problem) else files.problem
        if isinstance(files, Problem) or problem is not None:
            assert problem is not None
            return unknown(problem.kind, problem.message, job.host or "", now)
        found = _found(run, view, files)
        seen = self._seen(run, view, files, found)
        facet = judge(job, seen, query.exit_record, now)
        facet = self._without_trace(run, found, seen, facet, now)
        live = _live(run, view, found)
        value = facet.value
        if value is not None:
            facet = facet.model_copy(update={"value": _whole(value, found, live, host)})
            facet = whose(facet, () if facet.value is None else facet.value.rivals, now)
            facet = self._written(run.name, facet, seen.log_at, now)
        nameless = job.pid_file is None and facet.source == source_of(job) and job.exit_file is None
        source = PROCESS_TABLE if nameless else facet.source
        return facet.model_copy(update={"source": f"{job.host}: {source}"})

    def _written(
        self, name: str, facet: Facet[JobValue], log_at: float | None, now: float
    ) -> Facet[JobValue]:
        """Return a job that is gone as unknown while its log is written all the same."""
        value = facet.value
        if value is None or value.state != GONE:
            self._left.pop(name, None)
            return facet
        left = self._left.setdefault(name, log_at)
        if left is None or log_at is None or log_at <= left + FILE_SLACK:
            return facet
        return doubted(
            facet, value, f"{value.reason}, but its log still grows: who writes it?", now
        )

    def _seen(self, run: RunSpec, view: View, files: JobFiles, found: Found) -> Seen:
        size, at = (0, None) if files.log is None else (files.log.size, files.log.mtime)
        seen = Seen(found.note, found.who, files.exit, files.marker_at, size, at)
        if found.who.who is not Who.SAME or not isinstance(found.note, PidNote):
            return seen
        self._alive[_sought(run)] = found
        process = view.sight.processes.get(found.note.pid)
        if process is None:
            return seen
        started = view.sight.started_at(process)
        members = tuple(workers(view.sight.below(process.pid)))
        return seen._replace(
            started=started,
            ticks=process.ticks,
            members=members,
            stop=self._stop(view, members),
            again=starts_again(view.sight.processes, process.pid, view.sight.children, here=False),
        )

    def _stop(self, view: View, members: Sequence[Any]) -> Stop | None:
        """Return the stop of a job; one that is traced stops all the time: two looks must agree."""
        now, host = view.sight.got, str(view.sight.about["machine"])
        for one in members:
            key = (host, one.pid, one.ticks)
            if one.state not in STOP_STATES:
                self._stops.pop(key, None)
            elif key in self._stops or one.state == "T":
                since = self._stops.setdefault(key, now)
                held = one.state == "t"
                text = "held by a debugger" if held else "stopped by SIGSTOP or Ctrl-Z (state T)"
                return Stop(Stopped(pid=one.pid, since=since, held=held), f"{text}: pid {one.pid}")
            else:
                self._stops[key] = now
        return None

    def _without_trace(
        self, run: RunSpec, found: Found, seen: Seen, facet: Facet[JobValue], now: float
    ) -> Facet[JobValue]:
        """Return what is known of a job of which no file tells: its pane's status, or that it went.

        Whether it was ever there is told by its log, or by a former look.
        """
        lacks = facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND
        gone = facet.value is not None and facet.value.state == GONE
        if found.status is not None and (gone or lacks):
            return known(ended_as(seen, found.status, None), "dead pane", now)
        former = self._alive.get(_sought(run))
        return without_trace(facet, seen, found.absent, former and former.note, now)


def _sought(run: RunSpec) -> tuple[str | None, ...]:
    """Return what is looked for: another host or another name may be another job's."""
    job = run.job
    return (run.name,) if job is None else (run.name, job.host, job.session, job.match)


def _multiplexed(answers: Answers) -> Multiplexed:
    """Return the sessions of both programs; ``None`` if neither is there."""
    found: list[Session] = []
    absent = 0
    for each, read in ((TMUX, sessions), (SCREEN, screens)):
        said = answers.get(each)
        if isinstance(said, Problem) and said.kind is not ErrorKind.NOT_FOUND and each is TMUX:
            return Multiplexed((), said)
        if said is None or isinstance(said, Problem):
            absent += 1
        else:
            found += read(said[1])
    return Multiplexed(None) if absent == 2 else Multiplexed(tuple(found))


def _found(run: RunSpec, view: View, files: JobFiles) -> Found:
    """Return the process that stands for a run's job, by the first way that it names."""
    job = run.job
    assert job is not None
    if job.pid_file is not None and (files.pid is not None or not (job.session or job.match)):
        return by_pid_file(run, files, view.sight)
    if job.session is not None:
        found = by_session(job, job.session, view.sessions, view.sight)
        beside = (
            by_lineage(run, view.around.of(run, Recorded()), view.sight) if found.idle else None
        )
        return found if beside is None or beside.note is None else beside._replace(idle=found.idle)
    if job.match is not None:
        sight = view.sight
        note, who, absent = by_match(run, job.match, sight, sight.now, f"on {job.host}")
        return Found(note, who, absent=absent)
    return by_lineage(run, view.around.of(run, Recorded()), view.sight)


def _live(run: RunSpec, view: View, found: Found) -> Live:
    candidates = view.around.of(run, found.recorded)
    live = live_of(run, view.sight, candidates, found.recorded)
    host = view.sight
    return live.model_copy(
        update={
            name: tuple(_on_our_clock(job, host) for job in getattr(live, name))
            for name in ("jobs", "possible", "spared", "leftovers")
        }
    )


def _on_our_clock(job: LiveJob, host: Sight) -> LiveJob:
    return job.model_copy(update={"started_at": host.ours(job.started_at)})


def _whole(value: JobValue, found: Found, live: Live, host: Sight) -> JobValue:
    """Return a job with its id, its rivals, and its times on our clock."""
    pid = found.recorded.pid
    rivals = tuple(job for job in live.jobs if job.handle.get("pid") != str(pid))
    possible = tuple(job for job in live.possible if job.handle.get("pid") != str(pid))
    times = ("pending_since", "started_at", "ended_at")
    return value.model_copy(
        update={
            **{name: host.ours(getattr(value, name)) for name in times},
            "id": found.id or value.id,
            "reason": value.reason or found.idle or None,
            "rivals": rivals,
            "possible": possible,
            "rivals_source": PROCESS_TABLE,
        }
    )
