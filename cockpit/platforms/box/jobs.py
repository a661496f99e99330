"""The jobs of ssh hosts: one look at each host for all of its runs (SPEC S-4, SPEC J).

Everything is compared by the host's own clock and told on ours. A job is gone without an exit
status only while its host answers; what the host did not tell in time is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Live, LiveJob, Query, Stopped
from cockpit.model.observed import JobValue
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.box import words
from cockpit.platforms.box.disks import asked_alone, asked_of, shared_by, told_by
from cockpit.platforms.box.finding import (
    Found,
    Multiplexed,
    by_lineage,
    by_pid_file,
    by_session,
)
from cockpit.platforms.box.machine import Host, host_of, screens, sessions
from cockpit.platforms.box.probe import Actor, Answers, Piece
from cockpit.platforms.box.sight import HostSight, led, pid_folder, places_of, words_of
from cockpit.platforms.box.smallfiles import JobFiles, job_files
from cockpit.platforms.local.again import starts_again
from cockpit.platforms.local.belonging import LINEAGE
from cockpit.platforms.local.files import FILE_SLACK, PidNote
from cockpit.platforms.local.judging import (
    GONE,
    PROCESS_TABLE,
    Seen,
    doubted,
    ended_as,
    judge,
    source_of,
    whose,
    without_trace,
)
from cockpit.platforms.local.launcher.detached import SUPERVISES
from cockpit.platforms.local.lineage import Around, Recorded, candidates_of, live_of
from cockpit.platforms.local.marks import RunMarks
from cockpit.platforms.local.matching import by_match
from cockpit.platforms.local.recorded import Who
from cockpit.platforms.local.stopped import STOP_STATES, Stop, workers

FRESH: Final = 30.0
"""Seconds for which ``doctor`` takes what was just looked at, and does not ask the host again."""
REAP_WAIT: Final = 1.0
"""Seconds that a wrapper is given to write the exit status of a process that has ended."""
TOGETHER: Final = 32
"""Runs whose files are looked at by one piece."""
ALWAYS: Final = (words.ABOUT, words.STATS, words.ARGV, words.OWNERS, words.FOLDERS, words.PS)
NEEDED: Final = (words.ABOUT, words.STATS, words.ARGV)


Files = dict[str, JobFiles | Problem]


@dataclass(frozen=True)
class View:
    """What one look at a host has told of its runs."""

    sight: HostSight
    files: Files
    sessions: Multiplexed
    around: Around


class BoxJobs:
    """Observes the jobs of all hosts; remembers which ones it has seen alive."""

    def __init__(
        self, clock: Clock, actor_of: Callable[[str], Actor], reap_wait: float = REAP_WAIT
    ) -> None:
        self._clock = clock
        self._actor_of = actor_of
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
        self._apart: set[str] = set()
        """Runs among whose files one hangs: they are asked for one by one."""
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
        actor = self._actor_of(host)
        await self._follow(actor, runs, anew=anew)
        sent = self._clock.now()
        asked = asyncio.gather(actor.ask(_pieces(runs, self._links)), self._files(actor, runs))
        answers, files = await asked
        problem = next(
            (said for each in NEEDED if isinstance(said := answers[each], Problem)), None
        )
        if problem is not None:
            return problem
        told = {piece.name: said for piece, said in answers.items() if isinstance(said, bytes)}
        seen = host_of(told, sent, self._clock.now())
        if seen is None:
            text = f"{host}: neither /proc nor ps lists its processes"
            return Problem(kind=ErrorKind.BAD_ANSWER, message=text)
        files = await self._one_by_one(actor, runs, files)
        return self._view(seen, runs, answers, files)

    async def _files(self, actor: Actor, runs: Sequence[RunSpec]) -> Files:
        """Return the files of each run; those of many are asked for at once."""
        todo = [run for run in runs if run.name not in self._apart]
        groups = [todo[at : at + TOGETHER] for at in range(0, len(todo), TOGETHER)]
        alone = [[run] for run in runs if run.name in self._apart]
        return await self._asked(actor, [*groups, *alone])

    async def _one_by_one(self, actor: Actor, runs: Sequence[RunSpec], found: Files) -> Files:
        """Return the same, asked again for those whose neighbour's file may hang."""
        hung = [run for run in runs if isinstance(found[run.name], Problem)]
        again = [run for run in hung if run.name not in self._apart]
        self._apart |= {run.name for run in again}
        found |= await self._asked(actor, [[run] for run in again])
        self._apart -= {name for name, each in found.items() if isinstance(each, JobFiles)}
        return found

    async def _asked(self, actor: Actor, groups: Sequence[Sequence[RunSpec]]) -> Files:
        if not groups:
            return {}
        pieces = [
            words.files([run.name for run in group], [run.job for run in group if run.job])
            for group in groups
        ]
        answers = await actor.ask(pieces)
        found: Files = {}
        for piece, group in zip(pieces, groups, strict=True):
            said = answers[piece]
            jobs = [run.job for run in group if run.job is not None]
            if isinstance(said, Problem):
                found |= dict.fromkeys((run.name for run in group), said)
            else:
                found |= zip((run.name for run in group), job_files(said, jobs), strict=True)
        return found

    def _view(
        self,
        host: Host,
        runs: Sequence[RunSpec],
        answers: Answers,
        files: Files,
    ) -> View:
        logs = {name: each for name, each in files.items() if isinstance(each, JobFiles)}
        sight = HostSight(host, led(runs, self._links), logs, self._marks, self._disks)
        around = Around(candidates_of(sight), sight)
        return View(sight, files, _multiplexed(answers), around)

    async def _follow(self, actor: Actor, runs: Sequence[RunSpec], *, anew: bool) -> None:
        """Find out where links lead that are not known yet: once, and ``anew`` before an action.

        A folder that was not there at the first look may be a link by now, or lead elsewhere.
        """
        places = dict.fromkeys(place for run in runs for place in places_of(run))
        new = [place for place in places if anew or place not in self._links]
        if not new:
            return
        piece, folders = words.real(new), {pid_folder(run): None for run in runs}
        disks = asked_of([place for place in new if place in folders])
        answers = await actor.ask([piece, *disks])
        told, said = told_by(answers, disks), answers[piece]
        if isinstance(said, bytes):
            told |= await asked_alone(actor, disks, told)
        self._disks |= shared_by(told)
        lines = b"" if isinstance(said, Problem) else said
        found = lines.decode("utf-8", "surrogateescape").splitlines()
        if len(found) == len(new):
            links = dict(zip(new, found, strict=True))
            if any(self._links.get(place) != link for place, link in links.items()):
                self._links.update(links)
                self._marks.clear()

    def _judged(self, query: Query, view: View, now: float) -> Facet[JobValue]:
        run, host = query.run, view.sight.host
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
        now, host = view.sight.host.got, view.sight.host.about.get("machine", "")
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


def _pieces(runs: Sequence[RunSpec], links: Mapping[Place, str]) -> list[Piece]:
    """Return all that is asked of a host for these runs."""
    jobs = [(run, run.job) for run in runs if run.job is not None]
    marks = [word for run in runs for word in words_of(run, links)]
    pieces = [
        *ALWAYS,
        words.environments([f"{LINEAGE}=", f"{SUPERVISES}=", *marks]),
        words.open_files(marks),
    ]
    pieces += [words.TMUX, words.SCREEN] if any(job.session for _, job in jobs) else []
    return pieces


def _multiplexed(answers: Answers) -> Multiplexed:
    """Return the sessions of both programs; ``None`` if neither is there."""
    tmux, screen = answers.get(words.TMUX), answers.get(words.SCREEN)
    if isinstance(tmux, Problem):
        return Multiplexed((), tmux)
    panes = None if tmux is None else sessions(tmux)
    others = None if not isinstance(screen, bytes) else screens(screen)
    if panes is None and others is None:
        return Multiplexed(None)
    return Multiplexed((*(panes or ()), *(others or ())))


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
        note, who, absent = by_match(run, job.match, sight, sight.host.now, f"on {job.host}")
        return Found(note, who, absent=absent)
    return by_lineage(run, view.around.of(run, Recorded()), view.sight)


def _live(run: RunSpec, view: View, found: Found) -> Live:
    candidates = view.around.of(run, found.recorded)
    live = live_of(run, view.sight, candidates, found.recorded)
    host = view.sight.host
    return live.model_copy(
        update={
            name: tuple(_on_our_clock(job, host) for job in getattr(live, name))
            for name in ("jobs", "possible", "spared", "leftovers")
        }
    )


def _on_our_clock(job: LiveJob, host: Host) -> LiveJob:
    return job.model_copy(update={"started_at": host.ours(job.started_at)})


def _whole(value: JobValue, found: Found, live: Live, host: Host) -> JobValue:
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
