"""Which sources are asked for each facet of a run, at which place, and for which job."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from cockpit.model import observed
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.place import HERE
from cockpit.model.report import FACETS
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import ADOPTED, LAUNCHED
from cockpit.platforms.base import Platform
from cockpit.sources.checkpoints.source import endpoints as checkpoint_endpoints
from cockpit.sources.trackers import places as tracker_places
from cockpit.watch.runstate import RunState

if TYPE_CHECKING:
    from cockpit.platforms.base import EndpointFinding, Platform
    from cockpit.sources.checkpoints.source import Checkpoints
    from cockpit.sources.curve_fold import RowChunk
    from cockpit.sources.finelog import Reach
    from cockpit.sources.trackers import Trackers


_LAUNCH: Final = re.compile(r"(?P<run>.+)-i\d{1,6}")


class _NamedJob(NamedTuple):
    """A job that somebody has named: when, which, and who says so.

    ``file_id`` is what the run file named then; ``None``: not known.
    """

    at: float
    job_id: str
    who: str
    file_id: str | None = None


def with_current_job(
    run: RunSpec, state: RunState, platform: Platform | None
) -> tuple[RunSpec, str | None]:
    """Return the run with its newest job id, and who named it (``None``: the run file).

    The newest of the last launch or adoption and of the monitor's state file wins over
    ``job.id``, unless that was edited after that launch: then the run file names the newest. When
    they name another job than ``job.id``, the text says so. A launch of another run, told in a
    logbook that both write to, does not count.
    """
    if run.job is None or platform is None or platform.found_by_files:
        return run, None
    started, newest = _started(state), _newest(state)
    if newest is None or newest.job_id == run.job.id:
        return run, None
    if started is not None and _edited(run.job.id, started):
        return run, f"the run file, edited after {started.who} ({started.job_id})"
    who = newest.who
    said = f"{who} ({run.job.id} in the run file)" if run.job.id is not None else who
    job = run.job.model_copy(update={"id": newest.job_id})
    return run.model_copy(update={"job": job}), said


def _edited(job_id: str | None, started: _NamedJob) -> bool:
    """Tell whether ``job.id`` is another one than when a job was last started or adopted."""
    return job_id is not None and started.file_id is not None and job_id != started.file_id


def _of(run: str, launch_id: str) -> bool:
    """Tell whether a launch may be a run's: its id begins with the run's name (SPEC A)."""
    made = _LAUNCH.fullmatch(launch_id)
    return made is None or made["run"] == run


def _started(state: RunState) -> _NamedJob | None:
    """Return the last job that a cockpit started or adopted, as the store or the records say."""
    found = []
    launch = state.shared.launch
    if launch is not None:
        what = "launch" if launch.launch_id else "adoption"
        who = f"the last {what} in the store"
        found.append(_NamedJob(launch.at, launch.job_id, who, launch.file_id))
    for told in state.shared_facts:
        job = told.value if told.what == ADOPTED else told.parts.get("job")
        launched = told.what == LAUNCHED and _of(state.spec.name, told.value)
        adopted = told.what == ADOPTED and told.parts.get("run") == state.spec.name
        if job and (launched or adopted):
            what = "a launch" if launched else "an adoption"
            found.append(
                _NamedJob(told.at, job, f"{what} by {told.typed_by}, told in the {told.source}")
            )
    return max(found, key=lambda each: (round(each.at, 2), each.file_id is not None), default=None)


def _newest(state: RunState) -> _NamedJob | None:
    started, monitor = _started(state), state.facets.monitor.value
    if monitor is None or not monitor.job_id or monitor.last_update is None:
        return started
    if monitor.job_id == monitor.retired and started is not None:
        return started  # it goes on writing, and has not heard of the relaunch yet
    told = _NamedJob(monitor.last_update, monitor.job_id, "the monitor's state file")
    return told if started is None or told.at > started.at else started


def _local_group(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return (HERE,)


def _platform(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return (HERE if platform is None else platform.endpoint(run),)


def _log(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    """Return this machine for a log that lies on it, whoever runs the job."""
    job = run.job
    if job is not None and job.host is None and job.log is not None and job.log.here:
        return (HERE,)
    return _platform(run, platform)


def _tracker(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return tracker_places(run) or (HERE,)


def _checkpoints(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    return checkpoint_endpoints(run)


def _code(run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    repo = run.code.repo if run.code is not None else None
    return (HERE if repo is None else repo.endpoint,)


PLACES: Final[Mapping[str, Callable[[RunSpec, Platform | None], tuple[str, ...]]]] = {
    "job": _platform,
    "log": _log,
    "tracker": _tracker,
    "checkpoints": _checkpoints,
    "monitor": _local_group,
    "host": _platform,
    "code": _code,
    "records": _local_group,
}
"""One row for each facet. The records are a file of this machine, though its issue is not."""


def places_of(facet: str, run: RunSpec, platform: Platform | None) -> tuple[str, ...]:
    """Return the endpoints that answer for a facet of a run; ``platform`` is its job's."""
    return PLACES[facet](run, platform)


def fate_of(place: str) -> str:
    """Return what a place shares its fate with: the projects of one web server fail together."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else place


V = TypeVar("V", bound=Frozen)


class Source(Protocol[V]):
    """One system, asked in bulk; it never raises."""

    async def observe(self, runs: Sequence[RunSpec]) -> Mapping[str, Facet[V]]:
        """Return the facet of each run by name."""


class CodeSource(Protocol):
    """The checkouts of the runs; ``launched`` are the commits that their launches have used."""

    async def observe(
        self, runs: Sequence[RunSpec], launched: Mapping[str, str] = ...
    ) -> Mapping[str, Facet[observed.CodeValue]]:
        """Return the facet of each run by name."""


class Tracker(Protocol):
    """W&B, offline or online; trackio; TensorBoard."""

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> Mapping[str, Facet[observed.TrackerValue]]:
        """Return what is said ``at`` a place (or everywhere) of each run; it never raises."""

    def join(
        self, at: str, answers: Mapping[str, Facet[observed.TrackerValue]]
    ) -> Mapping[str, Facet[observed.TrackerValue]]:
        """Return the facet of each run, of which one place has answered."""

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as far as the last look tells."""

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without reading the ones before them."""

    def forget(self, names: Iterable[str]) -> None:
        """Start again with runs: the next rows of each are its first ones."""


@dataclass(frozen=True)
class Bulk(Generic[V]):
    """What is asked through the platforms, of each for its own runs; it never raises."""

    observe: Callable[[Sequence[Query]], Awaitable[Mapping[str, Facet[V]]]]


@dataclass(frozen=True)
class Sources:
    """One source for each facet, and the platforms, which reading and acting share."""

    job: Bulk[observed.JobValue]
    log: Bulk[observed.LogValue]
    tracker: Tracker
    checkpoints: Checkpoints
    monitor: Source[observed.MonitorValue]
    host: Bulk[observed.HostValue]
    code: CodeSource
    records: Source[observed.RecordsValue]
    platform_of: Callable[[RunSpec], Platform | None]
    findings: Callable[[Sequence[RunSpec]], Awaitable[Sequence[EndpointFinding]]]
    """What ``doctor`` says of the systems behind runs' jobs."""


def real_trackers(clock: Clock) -> Trackers:
    """Return the trackers of runs; finelog is asked through Iris controllers, as jobs are."""
    from cockpit.sources.trackers import Trackers

    def reach() -> Reach:
        from cockpit.platforms.iris.rpc import controllers

        return controllers(clock)

    return Trackers(clock, reach=reach)


def real_sources(clock: Clock) -> Sources:
    """Return the sources that look at the world."""
    from cockpit.platforms.table import Platforms
    from cockpit.records.logbook.reading import output_root_in
    from cockpit.runtime import http
    from cockpit.sources import github, monitor
    from cockpit.sources import records as logbook
    from cockpit.sources.checkpoints import source as checkpoints
    from cockpit.sources.git import code
    from cockpit.sources.told import Remotes

    platforms = Platforms(clock)
    issues = github.GitHub(http.Http(clock), clock)
    return Sources(
        job=Bulk(platforms.jobs),
        log=Bulk(platforms.logs),
        tracker=real_trackers(clock),
        checkpoints=checkpoints.Checkpoints(clock),
        monitor=monitor.Monitors(clock),
        host=Bulk(platforms.hosts),
        code=code.Code(clock),
        records=logbook.Records(
            clock, logbook.Issues(issues, clock), Remotes(clock), output_root_in
        ),
        platform_of=platforms.of,
        findings=platforms.findings,
    )


Answers = Mapping[str, Facet[Any]]
Key = tuple[str, str]
"""(facet, place)."""
WITH_JOB = frozenset({"log", "host"})
"""Facets whose sources are told of the current job: it may say where to look."""


def _seen_by(began: float, facet: Facet[Any]) -> Facet[Any]:
    """Return an answer as one that was seen when its look began at the latest."""
    if facet.observed_at is None or facet.observed_at <= began:
        return facet
    return facet.model_copy(update={"observed_at": began})


class Asker:
    """Asks the sources on behalf of the engine or of a single check."""

    def __init__(self, sources: Sources, states: Mapping[str, RunState], clock: Clock) -> None:
        self._sources = sources
        self._states = states
        self._clock = clock
        self._made: dict[str, tuple[tuple[object, ...], Query]] = {}
        """Of each run the last query, and what it was made of: most looks ask the same again."""

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform of a run's job; ``None`` for a run that names no job."""
        return self._sources.platform_of(run)

    def by_place(
        self, runs: Sequence[RunSpec], facets: Sequence[str] = FACETS
    ) -> dict[Key, list[RunSpec]]:
        """Return the runs that are asked for together, by facet and place."""
        groups: dict[Key, list[RunSpec]] = {}
        for facet in facets:
            for run in runs:
                for place in places_of(facet, run, self.platform_of(run)):
                    groups.setdefault((facet, place), []).append(run)
        return groups

    async def ask(self, facet: str, place: str, runs: Sequence[RunSpec]) -> Answers:
        """Return what a place answers about one facet of ``runs``; see ``join``.

        Of runs that an edit of the run file has removed meanwhile nothing is asked any more.
        """
        runs = [run for run in runs if run.name in self._states]
        if not runs:
            return {}
        if facet == "job":
            return await self._job(runs)
        if facet == "checkpoints":
            return await self._sources.checkpoints.observe(self._queries(runs), place)
        if facet == "tracker":
            return await self._sources.tracker.observe(self._queries(runs), place)
        if facet == "code":
            return await self._sources.code.observe(runs, self._launched(runs))
        asked = self._queries(runs) if facet in WITH_JOB else runs
        answers: Answers = await getattr(self._sources, facet).observe(asked)
        return answers

    def _launched(self, runs: Sequence[RunSpec]) -> dict[str, str]:
        """Return the commits of the last launches, as the store knows them."""
        used = {run.name: self._states[run.name].shared.used for run in runs}
        return {name: each.sha for name, each in used.items() if each is not None and each.sha}

    def join(self, facet: str, place: str, answers: Answers) -> Answers:
        """Return the facets that a place's answers make, with what other places said of them."""
        if facet == "checkpoints":
            return self._sources.checkpoints.join(place, answers)
        if facet == "tracker":
            return self._sources.tracker.join(place, answers)
        return answers

    async def _job(self, runs: Sequence[RunSpec]) -> Answers:
        """Return what is seen of the jobs, no newer than the question.

        A cockpit that is stopped in the midst of a look goes on with what it saw before. Called
        seen now, that closed what another one had opened meanwhile.
        """
        began = self._clock.now()
        current = [
            with_current_job(run, self._states[run.name], self.platform_of(run)) for run in runs
        ]
        queries = [self._about_job(run) for run, _ in current]
        answers = dict(await self._sources.job.observe(queries))
        for run, named in current:
            if named is not None and (facet := answers.get(run.name)) is not None:
                source = f"{facet.source}; id from {named}"
                answers[run.name] = facet.model_copy(update={"source": source})
        return {name: _seen_by(began, facet) for name, facet in answers.items()}

    def _about_job(self, run: RunSpec) -> Query:
        state = self._states[run.name]
        last = state.facets.job.value
        ended = last if last is not None and last.phase.terminal else None
        return Query(run=run, exit_record=state.exit_record, ended=ended)

    def _queries(self, runs: Sequence[RunSpec]) -> list[Query]:
        return [self._query(run) for run in runs]

    def _query(self, run: RunSpec) -> Query:
        """Return a run with its current job, as far as that is known."""
        state = self._states[run.name]
        job, records = state.facets.job, state.facets.records.value
        told = () if records is None else records.rejected
        current = job.value if job.known else None
        last_log = None if job.known else self._last_log(run, state)
        made_of = run, current, state.exit_record, state.shared.rejected, told, last_log
        former = self._made.get(run.name)
        if former is not None and all(map(is_, former[0], made_of)):
            return former[1]
        query = Query(
            run=run,
            job=current,
            exit_record=state.exit_record,
            rejected=(*state.shared.rejected, *told),
            last_log=last_log,
        )
        self._made[run.name] = made_of, query
        return query

    def _last_log(self, run: RunSpec, state: RunState) -> str | None:
        """Return where the log was read last, if that was the log of the job that is current."""
        job, log = state.facets.job.value, state.facets.log.value
        spec = with_current_job(run, state, self.platform_of(run))[0].job
        if job is None or log is None or spec is None or spec.id not in (None, job.id):
            return None
        return log.path
