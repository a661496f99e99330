"""The sources that the engine asks, as one bundle: tests put small fakes in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet
from cockpit.model.observed import (
    CheckpointsValue,
    CodeValue,
    HostValue,
    JobValue,
    LogValue,
    MonitorValue,
    RecordsValue,
    Row,
    TrackerValue,
)
from cockpit.model.records import Rejected
from cockpit.model.run import RunSpec

V = TypeVar("V", bound=Frozen)


class Rows(Protocol):
    """Some rows of a tracker."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, in order."""

    @property
    def caught_up(self) -> bool:
        """True when no row is left to read now."""

    @property
    def restarted(self) -> bool:
        """True when the file is another one: these rows begin anew."""

    @property
    def share(self) -> float:
        """How much of the run is covered, 0 to 1: by these rows and, in a chunk, all before."""


class Source(Protocol[V]):
    """One system, asked in bulk; it never raises."""

    async def observe(self, runs: Sequence[RunSpec]) -> Mapping[str, Facet[V]]:
        """Return the facet of each run by name."""


class Jobs(Protocol):
    """Orchestrators."""

    async def observe(
        self, runs: Sequence[RunSpec], exit_records: Mapping[str, int] | None = None
    ) -> Mapping[str, Facet[JobValue]]:
        """Return the jobs; ``exit_records`` are W&B's exit codes by run name (SPEC J)."""


class Tracker(Source[TrackerValue], Protocol):
    """W&B, offline or online."""

    async def more_rows(self, run: RunSpec) -> Rows:
        """Return the next rows in order, from the very first, then only what is new."""

    async def recent(self, run: RunSpec, rows: int = 3000) -> Rows:
        """Return the newest rows, without reading the ones before them."""


class Checkpoints(Protocol):
    """Checkpoint roots."""

    async def observe(
        self,
        runs: Sequence[RunSpec],
        alive: Mapping[str, bool] | None = None,
        rejected: Mapping[str, tuple[Rejected, ...]] | None = None,
    ) -> Mapping[str, Facet[CheckpointsValue]]:
        """Return the checkpoints; ``alive`` says of which runs the job lives or is over.

        ``rejected`` is what the store knows of rejected ones.
        """


@dataclass(frozen=True)
class Sources:
    """One source for each facet."""

    job: Jobs
    log: Source[LogValue]
    tracker: Tracker
    checkpoints: Checkpoints
    monitor: Source[MonitorValue]
    host: Source[HostValue]
    code: Source[CodeValue]
    records: Source[RecordsValue]


def real_sources(clock: Clock) -> Sources:
    """Return the sources that look at the world."""
    from cockpit.sources import (
        checkpoints,
        code,
        github,
        host,
        http,
        log,
        logbook,
        monitor,
        orchestrators,
        wandb_offline,
    )

    issues = github.GitHub(http.Http(clock), clock)
    return Sources(
        job=orchestrators.Jobs(clock),
        log=log.Logs(clock),
        tracker=wandb_offline.OfflineWandb(clock),
        checkpoints=checkpoints.Checkpoints(clock),
        monitor=monitor.Monitors(clock),
        host=host.Hosts(clock),
        code=code.Code(clock),
        records=logbook.Records(clock, logbook.Issues(issues, clock)),
    )
