"""The sources that the engine asks, as one bundle: tests put small fakes in their place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet
from cockpit.model.observed import (
    CodeValue,
    HostValue,
    JobValue,
    LogValue,
    MonitorValue,
    RecordsValue,
    TrackerValue,
)
from cockpit.model.query import Query
from cockpit.model.run import RunSpec

if TYPE_CHECKING:
    from cockpit.platforms.base import EndpointFinding, Platform
    from cockpit.sources.checkpoints.source import Checkpoints
    from cockpit.sources.wandb.history import RowChunk

V = TypeVar("V", bound=Frozen)


class Source(Protocol[V]):
    """One system, asked in bulk; it never raises."""

    async def observe(self, runs: Sequence[RunSpec]) -> Mapping[str, Facet[V]]:
        """Return the facet of each run by name."""


class CodeSource(Protocol):
    """The checkouts of the runs; ``launched`` are the commits that their launches have used."""

    async def observe(
        self, runs: Sequence[RunSpec], launched: Mapping[str, str] = ...
    ) -> Mapping[str, Facet[CodeValue]]:
        """Return the facet of each run by name."""


class Tracker(Protocol):
    """W&B, offline or online; trackio; TensorBoard."""

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> Mapping[str, Facet[TrackerValue]]:
        """Return what is said ``at`` a place (or everywhere) of each run; it never raises."""

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> Mapping[str, Facet[TrackerValue]]:
        """Return the facet of each run, of which one place has answered."""

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as far as the last look tells."""

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without reading the ones before them."""

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""


@dataclass(frozen=True)
class Bulk(Generic[V]):
    """What is asked through the platforms, of each for its own runs; it never raises."""

    observe: Callable[[Sequence[Query]], Awaitable[Mapping[str, Facet[V]]]]


@dataclass(frozen=True)
class Sources:
    """One source for each facet, and the platforms, which reading and acting share."""

    job: Bulk[JobValue]
    log: Bulk[LogValue]
    tracker: Tracker
    checkpoints: Checkpoints
    monitor: Source[MonitorValue]
    host: Bulk[HostValue]
    code: CodeSource
    records: Source[RecordsValue]
    platform_of: Callable[[RunSpec], Platform | None]
    findings: Callable[[Sequence[RunSpec]], Awaitable[Sequence[EndpointFinding]]]
    """What ``doctor`` says of the systems behind runs' jobs."""


def real_sources(clock: Clock) -> Sources:
    """Return the sources that look at the world."""
    from cockpit.platforms.table import Platforms
    from cockpit.records.logbook.reading import output_root_in
    from cockpit.runtime import http
    from cockpit.sources import records as logbook
    from cockpit.sources.checkpoints import source as checkpoints
    from cockpit.sources.git import code
    from cockpit.sources.github import client as github
    from cockpit.sources.monitor import source as monitor
    from cockpit.sources.told import Remotes
    from cockpit.sources.trackers import Trackers

    platforms = Platforms(clock)
    issues = github.GitHub(http.Http(clock), clock)
    return Sources(
        job=Bulk(platforms.jobs),
        log=Bulk(platforms.logs),
        tracker=Trackers(clock),
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
