"""Every kind of job, asked through one class; the rows of the kinds are in ``kinds.py``.

A platform is loaded with the first run of its kind: few fleets have more than two.

What a job's own system tells of it, made safe to show: ``cockpit describe`` and its key.

One question to each place, however many runs: what goes wrong there is told of all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar, cast

from cockpit.model.clock import Clock
from cockpit.model.described import Description
from cockpit.model.facet import ErrorKind, Facet, not_configured, unknown
from cockpit.model.jobs import Live, OwnJob, Query
from cockpit.model.logtext import Alarm
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding, LostError, Platform
from cockpit.platforms.kinds import PLATFORMS
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

Ask = Callable[[Platform, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]


@cache
def platform_of(kind: str) -> type[Platform]:
    """Return the class for one kind of job."""
    module, _, name = PLATFORMS[kind].platform.partition(":")
    return cast("type[Platform]", getattr(import_module(module), name))


def kind_of(run: RunSpec) -> type[Platform] | None:
    """Return what is known of a run's kind of job without asking it anything."""
    return None if run.job is None else platform_of(run.job.kind)


def _alarms_in(data: bytes) -> Sequence[Alarm]:
    """Return the alarming lines of some bytes; imports here: few logs are ever skipped."""
    from cockpit.rules.triage.classify import alarms_in

    return alarms_in(data)


class Platforms:
    """One platform of each kind; asks them together, each for its own runs."""

    def __init__(self, clock: Clock, made: Sequence[Platform] | None = None) -> None:
        self._clock = clock
        self._logs = Logs(clock, _alarms_in)
        self._by_kind = {platform.kind: platform for platform in made or ()}

    def of(self, run: RunSpec) -> Platform | None:
        """Return the platform of a run's job; ``None`` for a run that names no job."""
        return None if run.job is None else self._of_kind(run.job.kind)

    def _of_kind(self, kind: str) -> Platform:
        if kind not in self._by_kind:
            make = cast("Callable[[Clock, Logs], Platform]", platform_of(kind))
            self._by_kind[kind] = make(self._clock, self._logs)
        return self._by_kind[kind]

    async def jobs(self, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by name."""
        return await self._each(queries, lambda platform, own: platform.jobs(own))

    async def logs(self, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run, by name."""
        return await self._each(queries, lambda platform, own: platform.logs(own))

    async def hosts(self, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run, by name."""
        return await self._each(queries, lambda platform, own: platform.hosts(own))

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs where ``job`` says; raises ``CannotError``."""
        return await self._of_kind(job.kind).own_jobs(job)

    async def findings(self, runs: Sequence[RunSpec]) -> list[EndpointFinding]:
        """Return what ``doctor`` says of the systems behind these runs."""
        groups: dict[str, list[RunSpec]] = {kind: [] for kind in PLATFORMS}
        for run in runs:
            if run.job is not None:
                groups[run.job.kind].append(run)
        asked = (self._of_kind(kind).findings(own) for kind, own in groups.items() if own)
        return [finding for found in await asyncio.gather(*asked) for finding in found]

    async def _each(self, queries: Sequence[Query], ask: Ask) -> dict[str, Facet[Any]]:
        groups: dict[str, list[Query]] = {}
        found: dict[str, Facet[Any]] = {}
        for query in queries:
            if query.run.job is None:
                found[query.name] = not_configured("[run.job]")
            else:
                groups.setdefault(query.run.job.kind, []).append(query)
        asked = (ask(self._of_kind(kind), own) for kind, own in groups.items())
        for answer in await asyncio.gather(*asked):
            found.update(answer)
        return found


WITHIN: Final = 30.0
"""Seconds for the whole answer."""
MOST: Final = 4_000
"""Lines of an answer that are kept: an array of a thousand tasks has a record for each."""


async def describe(platforms: Platforms, run: RunSpec, job_id: str, clock: Clock) -> Description:
    """Ask a run's system about a job; changes nothing, never raises."""
    platform = platforms.of(run)
    system = "" if platform is None else platform.endpoint(run)
    found = Description(run=run.name, job=clean(job_id, 200), system=system, at=clock.now())
    if platform is None:
        return found.model_copy(update={"problem": f"{run.name} has no [run.job] in its run file"})
    try:
        async with asyncio.timeout(WITHIN):
            told = await platform.describe(run, job_id)
    except (CannotError, LostError) as error:
        return found.model_copy(update={"problem": scrub(clean(error, 400))})
    except TimeoutError:
        late = f"{system} did not answer within {WITHIN:.0f} s"
        return found.model_copy(update={"problem": late})
    lines = [line.plain for line in safe_lines(told.encode("utf-8", "replace"), limit=MOST + 1)]
    if len(lines) > MOST:
        lines[MOST:] = [f"… only the first {MOST:,} lines are shown"]
    text = scrub("\n".join(lines)).strip("\n")
    return found.model_copy(update={"text": text})


def outlined(value: object, depth: int = 0) -> Iterator[str]:
    """Yield a document's lines as ``kubectl describe`` writes them: keys, indented by depth."""
    left = "  " * depth
    items: Sequence[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        items = [(f"{key}:", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        items = [("-", each) for each in value]
    for name, each in items:
        if isinstance(each, Mapping | list | tuple) and each:
            yield f"{left}{name}"
            yield from outlined(each, depth + 1)
        elif each not in (None, "", {}, [], ()):
            first, *more = str(each).splitlines() or [""]
            yield f"{left}{name} {first}"
            yield from (f"{left}  {line}" for line in more)


LONGEST: Final = 400


CLOCK_OFF: Final = 60.0
"""Seconds by which the clock of a place may differ from ours, and is right."""
STEADY: Final = 30.0
"""Seconds by which an offset must change before it is another one: starts must not move."""
_INSTANTS: Final = (
    *("pending_since", "started_at", "ended_at", "expected_start", "ends_by", "preempted_at"),
)


class PlaceClock:
    """The clock of a place beside ours: it is ``off`` seconds ahead, 0 where it is right."""

    def __init__(self) -> None:
        self.off = 0.0

    def learn(self, date: float | None, now: float) -> None:
        """Take note of the time that it shows, if it does, by a figure that does not wobble."""
        if date is not None:
            off = date - now if abs(date - now) >= CLOCK_OFF else 0.0
            self.off = off if abs(off - self.off) >= STEADY else self.off

    def ours(self, at: float) -> float:
        """Return one of its times on our clock."""
        return at - self.off

    def value(self, job: JobValue) -> JobValue:
        """Return a job with all of its times on our clock."""
        own = {name: getattr(job, name) for name in _INSTANTS} if self.off else {}
        moved = {name: self.ours(at) for name, at in own.items() if at is not None}
        return job.model_copy(update=moved)


class UnansweredError(LostError):
    """A place gave no answer: ``kind`` is that of a facet, ``remedy`` what a person can do."""

    def __init__(self, kind: ErrorKind, text: str, remedy: str = "") -> None:
        super().__init__("; ".join(filter(None, (text, remedy))))
        self.kind = kind
        self.text = text
        self.remedy = remedy


class _Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Hashable)
T = TypeVar("T", bound=_Named)
V = TypeVar("V")
Failure = HttpError | UnansweredError


def by_place(items: Iterable[T], place_of: Callable[[T], P]) -> dict[P, list[T]]:
    """Return queries or runs by the place that answers for them."""
    groups: dict[P, list[T]] = {}
    for each in items:
        groups.setdefault(place_of(each), []).append(each)
    return groups


async def ask_each(
    groups: Mapping[P, list[T]],
    ask: Callable[[P, list[T]], Awaitable[Mapping[str, V]]],
    failed: Callable[[P, Failure], V],
) -> dict[str, V]:
    """Return what each place answers for its runs, by their names; all places are asked at once."""

    async def one(place: P, own: list[T]) -> Mapping[str, V]:
        try:
            return await ask(place, own)
        except (HttpError, UnansweredError) as error:
            return dict.fromkeys((each.name for each in own), failed(place, error))

    answers = await asyncio.gather(*(one(*group) for group in groups.items()))
    return {name: value for answer in answers for name, value in answer.items()}


def unanswered(source: Callable[[Any], str], clock: Clock) -> Callable[[Any, Failure], Facet[Any]]:
    """Return what makes the facet of a place, named by ``source``, that gave no answer."""

    def failed(place: object, error: Failure) -> Facet[Any]:
        facet: Facet[Any] = unknown(error.kind, clean(error, LONGEST), source(place), clock.now())
        return facet.model_copy(update={"retry_after": getattr(error, "retry_in", None)})

    return failed


def unknown_lives(place: object, error: Failure) -> Live:
    """Return that nobody knows what lives at a place that gave no answer."""
    return Live(unknown=clean(error, LONGEST))


def names_of(items: Sequence[_Named]) -> list[str]:
    """Return the names of queries or runs."""
    return [each.name for each in items]
