"""The job facet of runs on Ray: one list of a head's jobs answers for all its runs (SPEC J)."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cockpit.hosts.notes import launch_id_in, number_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, Query
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, program_of
from cockpit.platforms.lineage import Candidate, LineageSign, live_of, told_by, words_of
from cockpit.platforms.ray.answers import RayJob, Supervisor, mapping, phase_of, reason_of
from cockpit.platforms.ray.head import PROBE, Head
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LINEAGE: Final = ("COCKPIT_LINEAGE", "lineage")
"""The variable of a job's environment and the key of its metadata that carry the lineage."""
NAME_LENGTH: Final = 120
SUBMISSION: Final = "submission_id"
STARTED: Final = "start_time"
OUTSIDE: Final = "it was attached from outside: only where it was started can it be ended"


def candidate_of(job: RayJob, since: float | None) -> Candidate:
    """Return a living job as a candidate; ``since`` is when it began, on our clock."""
    handle = {SUBMISSION: job.submission_id, STARTED: stamp_of(job)} if job.submission_id else {}
    live = LiveJob(
        id=clean(job.id, 200),
        name=shown_name(job),
        why="",
        launch_id=job.submission_id,
        started_at=since,
        beyond=OUTSIDE if job.submission_id is None else None,
        handle=handle,
    )
    names = [name for name in (job.submission_id, job.job_id) if name is not None]
    tag = job.env.get(LINEAGE[0]) or job.metadata.get(LINEAGE[1]) or ""
    return Candidate(live, names, told_by(words_of(job.entrypoint)), started(job), tag)


def started(job: RayJob) -> Started:
    """Return what a job was started with."""
    program, args = program_of(words_of(job.entrypoint))
    return Started(program, args, labels=job.submission_id or "", variables=job.env)


def launch_id_of(run: RunSpec, job: RayJob) -> str | None:
    """Return the launch id that a job was submitted under, ``None`` if it is not of this run."""
    name = job.submission_id
    if name is None or not name.startswith(f"{run.name}-i"):
        return None
    return name if number_of(run.name, name) is not None else None


def shown_name(job: RayJob) -> str:
    """Return a job's entrypoint for people: one line, safe, scrubbed and short."""
    return clean(scrub(clean(job.entrypoint, 2000)), NAME_LENGTH)


def stamp_of(job: RayJob) -> str:
    """Return when a job was submitted, as a handle holds it: it tells one execution of a name."""
    return "" if job.submitted_at is None else f"{job.submitted_at:.3f}"


_UNPLACED: Final = frozenset({"PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"})
_SHOWN: Final = 4
_GIB: Final = 1 << 30
_BYTES: Final = frozenset({"memory", "object_store_memory"})


class Wait(NamedTuple):
    """Why a job waits (one line), and whether it waits for something that cannot come."""

    reason: str
    never: bool


async def waits(
    head: Head, jobs: Sequence[RayJob], supervisors: Mapping[str, Supervisor]
) -> dict[str, Wait]:
    """Return what these pending jobs wait for, by id, as far as it is known; raises ``HttpError``.

    Asks for the nodes once, and for the autoscaler only where no node is large enough.
    """
    wanted = {
        job.id: actor.wants
        for job in jobs
        if (actor := supervisors.get(job.id)) is not None
        and actor.state in _UNPLACED
        and actor.wants
    }
    if not wanted:
        return {}
    nodes = await head.nodes()
    unmet = {name for name, wants in wanted.items() if not fits(wants, nodes)}
    fixed = bool(nodes) and bool(unmet) and is_fixed(await head.autoscaler())
    return {
        name: _wait(wants, nodes, unmet=name in unmet, fixed=fixed)
        for name, wants in wanted.items()
    }


def fits(wants: Mapping[str, float], nodes: Iterable[Mapping[str, float]]) -> bool:
    """Tell whether one node, all of it free, has everything that is wanted."""
    return any(
        all(node.get(name, 0.0) >= amount for name, amount in wants.items()) for node in nodes
    )


def is_fixed(report: Mapping[str, object]) -> bool:
    """Tell whether nothing adds nodes: each node is a type of its own, and none is on its way.

    So Ray reports of clusters that were put together by hand; an autoscaler names the types of
    its configuration. Without a report this is not known.
    """
    types = mapping(report.get("nodeTypeMapping"))
    by_hand = bool(types) and all(str(kind).startswith("node_") for kind in types.values())
    return by_hand and not report.get("pendingLaunches") and not report.get("pendingNodes")


def _wait(
    wants: Mapping[str, float], nodes: Sequence[Mapping[str, float]], *, unmet: bool, fixed: bool
) -> Wait:
    text = f"waiting for {_amounts(wants)}"
    if not unmet:
        return Wait(f"{text}, which a node has and others use", never=False)
    most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in wants}
    text += f", and no node has so much (the most of each: {_amounts(most)})"
    if fixed:
        return Wait(f"{text}; nothing adds nodes to this cluster", never=True)
    return Wait(f"{text}; an autoscaler would have to bring a node", never=False)


def _amounts(resources: Mapping[str, float]) -> str:
    shown = [_amount(name, amount) for name, amount in list(resources.items())[:_SHOWN]]
    more = len(resources) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _amount(name: str, amount: float) -> str:
    if name in _BYTES:
        return f"{amount / _GIB:.3g} GiB {name}"
    return f"{amount:g} {clean(name, 40)}"


ALL_WITHIN: Final = 5.5
"""Seconds for everything that is asked of a head for one look, beside a list that took longer."""
AT_LEAST: Final = 0.5
FITS: Final = "its name fits job.match"
_KEPT: Final = 10_000
"""Starts of drivers that are remembered: a driver begins once."""


class Listed(NamedTuple):
    """What one answer of a head contains: all its jobs, and what our own wait for."""

    jobs: tuple[RayJob, ...]
    current: Mapping[str, RayJob | None]
    """The current job of each run, by the run's name."""
    waits: Mapping[str, Wait]
    began: str | None = None
    """When the head began, by its own clock, where a job of ours is missing and the head tells."""


class RayJobs:
    """Reads the jobs of heads; remembers when drivers began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: dict[tuple[str, str], float] = {}
        self._last_logs: dict[tuple[str, str], str] = {}

    def last_log(self, head: Head, job_id: str) -> str | None:
        """Return the end of a failed job's log as the head has kept it with the job's state."""
        return self._last_logs.get((head.base, job_id))

    async def observe(self, head: Head, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run of one head, by run name; raises ``HttpError``."""
        runs = [query.run for query in queries]
        listed = await self.listed(head, runs)
        lives = self.live(head, listed.jobs, runs)
        self._keep_logs(head, [job for job in listed.current.values() if job is not None])
        gone = [each for each in queries if listed.current[each.name] is None and not each.over]
        listed = listed._replace(began=await _began(head) if gone else None)
        now = self._clock.now()
        return {
            each.name: self._facet(head, each, listed, lives[each.name], now) for each in queries
        }

    async def known(self, head: Head, queries: Sequence[Query]) -> dict[str, JobValue]:
        """Return each run's job as the watch knows it; at its first look, as the head lists it.

        Raises ``HttpError``.
        """
        found = {query.name: query.job for query in queries if query.job is not None}
        runs = [query.run for query in queries if query.job is None]
        current = currents_of(runs, await head.recent_jobs()) if runs else {}
        for run in runs:
            if (job := current[run.name]) is not None:
                found[run.name] = self._value(head, run, job, None)
        return found

    def live(self, head: Head, jobs: Sequence[RayJob], runs: Sequence[RunSpec]) -> dict[str, Live]:
        """Return what lives of each run's lineage among the jobs of its head, by run name."""
        living = [job for job in jobs if phase_of(job).lives]
        candidates = [candidate_of(job, self._since(head, job)) for job in living]
        current = currents_of(runs, jobs)
        owners = {job.id: name for name, job in current.items() if job is not None}
        found = {}
        for run in runs:
            others = frozenset(job for job, name in owners.items() if name != run.name)
            own = current[run.name]
            found[run.name] = live_of(run, candidates, own and started(own), others)
            matched = _matched(run, jobs)
            if matched is not None and phase_of(matched).lives:
                fitting = candidate_of(matched, self._since(head, matched))
                found[run.name] = _with(found[run.name], fitting.live(run, LineageSign(FITS)))
        return found

    async def wait_of(self, head: Head, job: RayJob) -> str | None:
        """Return what a pending job waits for, as far as the head tells."""
        with suppress(HttpError):
            found = await waits(head, [job], await head.supervisors())
            return found[job.id].reason if job.id in found else None
        return None

    async def listed(self, head: Head, runs: Sequence[RunSpec]) -> Listed:
        """Return all jobs of a head, and more of those of these runs; raises ``HttpError``."""
        began = self._clock.monotonic()
        jobs = await head.shared_jobs()
        current = currents_of(runs, jobs)
        own = {job.id: job for job in current.values() if job is not None}
        left = max(AT_LEAST, ALL_WITHIN - (self._clock.monotonic() - began))
        found: dict[str, Wait] = {}
        with suppress(HttpError, TimeoutError):
            async with asyncio.timeout(left):
                await self._more(head, list(own.values()), found)
        return Listed(jobs, current, found)

    async def _more(self, head: Head, own: Sequence[RayJob], found: dict[str, Wait]) -> None:
        """Learn what pending jobs wait for (into ``found``), and when drivers began."""
        pending = [job for job in own if phase_of(job) is Phase.WAITING]
        dateless = [job for job in own if self._is_dateless(head, job)]
        if not pending and not dateless:
            return
        actors = await head.supervisors()
        ids = {job.id: actors[job.id].actor_id for job in dateless if job.id in actors}
        found |= await waits(head, pending, actors)
        if ids:
            began = await head.starts(ids)
            while len(self._began) > _KEPT:
                self._began.pop(next(iter(self._began)))
            self._began |= {(head.base, name): at for name, at in began.items()}

    def _keep_logs(self, head: Head, jobs: Sequence[RayJob]) -> None:
        for key in [key for key in self._last_logs if key[0] == head.base]:
            del self._last_logs[key]
        for job in jobs:
            if (log := job.last_log) is not None:
                self._last_logs[head.base, job.id] = log

    def _is_dateless(self, head: Head, job: RayJob) -> bool:
        begun = phase_of(job) is not Phase.WAITING and job.node is not None
        return begun and job.submission_id is not None and (head.base, job.id) not in self._began

    def _since(self, head: Head, job: RayJob) -> float | None:
        """Return when a job began, else when it was submitted, on our clock."""
        began = self._began.get((head.base, job.id))
        if began is not None or job.submitted_at is None:
            return began
        return head.clock.ours(job.submitted_at)

    def _facet(
        self, head: Head, query: Query, listed: Listed, live: Live, now: float
    ) -> Facet[JobValue]:
        run, job = query.run, listed.current[query.name]
        if job is None:
            return _unlisted(head, query, listed, live, now)
        rivals = [each for each in live.jobs if not job.is_called(each.id)]
        value = self._value(head, run, job, listed.waits.get(job.id))
        source = head.name + _newer_than(run, job)
        possible = [each for each in live.possible if not job.is_called(each.id)]
        return known(_with_others(value, head, rivals, possible), source, now)

    def _value(self, head: Head, run: RunSpec, job: RayJob, wait: Wait | None) -> JobValue:
        phase = phase_of(job)
        waiting = phase is Phase.WAITING
        submitted = None if job.submitted_at is None else head.clock.ours(job.submitted_at)
        began = self._began.get((head.base, job.id))
        if job.submission_id is None:
            began = submitted  # a driver from outside waits for nobody
        return JobValue(
            id=clean(job.id, 200),
            state=clean(job.status, 80),
            phase=phase,
            reason=wait.reason if wait is not None and waiting else reason_of(job),
            exit_code=job.exit_code if phase.terminal else None,
            pending_since=submitted if waiting else None,
            started_at=None if waiting else began,
            ended_at=_ended(head, job, phase),
            launch_id=launch_id_of(run, job),
            never=wait is not None and wait.never and waiting,
            output=None if waiting else job.log_name,
            node=job.node,
        )


def _with_others(
    value: JobValue, head: Head, rivals: Sequence[LiveJob], possible: Sequence[LiveJob]
) -> JobValue:
    """Return a job with what else lives of its lineage."""
    source = f"the jobs of {head.name}" if rivals or possible else ""
    found = {"rivals": tuple(rivals), "rivals_source": source, "possible": tuple(possible)}
    return value.model_copy(update=found)


def _unlisted(head: Head, query: Query, listed: Listed, live: Live, now: float) -> Facet[JobValue]:
    """Return the facet of a run whose job its head does not list; an end that was seen stands."""
    if query.over is None:
        text = _missing(head, query.run, listed.began)
        return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
    value = _with_others(query.over, head, live.jobs, live.possible)
    return known(value, f"{head.name}, as it was seen to end; not listed any more", now)


def currents_of(runs: Iterable[RunSpec], jobs: Sequence[RayJob]) -> dict[str, RayJob | None]:
    """Return each run's current job, by the run's name: the recorded one, else its newest launch.

    One that is called so by its submission id goes before one that has such a job id. A launch
    that has outlived the recorded job, which is over, is the current one: a cockpit that was killed
    between a start and its records leaves the old job recorded.
    """
    by_id = {job.job_id: job for job in jobs if job.job_id is not None}
    by_id |= {job.submission_id: job for job in jobs if job.submission_id is not None}
    return {run.name: _current(run, jobs, by_id) for run in runs}


def _current(run: RunSpec, jobs: Sequence[RayJob], by_id: Mapping[str, RayJob]) -> RayJob | None:
    job, matched = _recorded(run, jobs, by_id), _matched(run, jobs)
    if matched is None or job is None:
        return matched or job
    newer = (matched.submitted_at or 0.0) > (job.submitted_at or 0.0)
    return matched if newer else job


def _with(live: Live, own: LiveJob) -> Live:
    """Return what lives with a job that is surely of the lineage, once."""
    others = tuple(job for job in live.possible if job.id != own.id)
    there = any(job.id == own.id for job in live.jobs)
    jobs = live.jobs if there else (own, *live.jobs)
    return live.model_copy(update={"jobs": jobs, "possible": others})


def _matched(run: RunSpec, jobs: Sequence[RayJob]) -> RayJob | None:
    """Return the newest job that fits ``job.match`` by its submission id or its metadata's name."""
    pattern = run.job.match if run.job is not None else None
    if pattern is None:
        return None
    fits = [
        job
        for job in jobs
        if any(fnmatch.fnmatchcase(name, pattern) for name in _names(job))
        if launch_id_in((job.submission_id or "",)) in (None, launch_id_of(run, job))
    ]
    return max(fits, key=lambda job: (job.submitted_at or 0.0, job.id), default=None)


def _names(job: RayJob) -> Iterator[str]:
    told = (job.submission_id, job.metadata.get("name"), job.metadata.get("job_name"))
    return (name for name in told if name)


def _recorded(run: RunSpec, jobs: Sequence[RayJob], by_id: Mapping[str, RayJob]) -> RayJob | None:
    named = run.job.id if run.job is not None else None
    launches = [job for job in jobs if launch_id_of(run, job) is not None]
    newest = max(launches, key=lambda job: number_of(run.name, job.id) or 0, default=None)
    if named is None:
        return newest
    job = by_id.get(named)
    if job is None or newest is None or not phase_of(job).terminal:
        return job
    later = (newest.submitted_at or 0.0) >= (job.submitted_at or 0.0)
    outlives = phase_of(newest).lives or (newest.ended_at or 0.0) >= (job.ended_at or 0.0)
    return newest if later and outlives else job


def _newer_than(run: RunSpec, job: RayJob) -> str:
    """Return how the current job was found where it is not the one that is recorded."""
    named = run.job.id if run.job is not None else None
    if named is None or job.is_called(named):
        return ""
    launched = launch_id_of(run, job) is not None
    how = "found by launch id" if launched else "the newest that fits job.match,"
    return f"; {how} {clean(job.id, 120)}, newer than {clean(named, 120)}"


def _ended(head: Head, job: RayJob, phase: Phase) -> float | None:
    if job.ended_at is None or not phase.terminal:
        return None
    return head.clock.ours(job.ended_at)


async def _began(head: Head) -> str | None:
    with suppress(HttpError):
        return (await head.version(PROBE))[1]
    return None


def _missing(head: Head, run: RunSpec, began: str | None) -> str:
    """Return why a job that is not listed is unknown: a head's memory ends with the head."""
    recorded = run.job.id if run.job is not None else None
    if recorded is None:
        return (
            f"{head.name} lists no job {clean(run.name, 80)}-i…, and job.id is not in the run "
            f"file: set it, or launch with the cockpit"
        )
    since = f" (this one began {began}, its clock)" if began else ""
    return (
        f"{head.name} does not list job {clean(recorded, 120)}: that is unknown, not finished. "
        f"A head forgets its jobs when it restarts{since} or when they are deleted"
    )
