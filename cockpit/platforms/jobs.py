"""The job facet of every run, whichever orchestrator its job lives on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, not_configured, unknown
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.platforms.local.jobs import LocalJobs


class Jobs:
    """Asks each orchestrator for its jobs, in bulk, by ``job.kind``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._local = LocalJobs(clock)

    async def observe(
        self, runs: Sequence[RunSpec], exit_records: Mapping[str, int] | None = None
    ) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by name. ``exit_records``: W&B exit codes by name."""
        facets = await self._local.observe(runs, exit_records)
        for run in runs:
            if run.name not in facets:
                facets[run.name] = self._unread(run)
        return facets

    def _unread(self, run: RunSpec) -> Facet[JobValue]:
        if run.job is None:
            return not_configured("[run.job]")
        message = f"{run.job.kind} jobs are not read yet by this version"
        return unknown(ErrorKind.UNSUPPORTED, message, run.job.kind, self._clock.now())
