"""Every kind of job that there is. To add one: its package, and a row here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import OwnJob
from cockpit.model.logtext import Alarm
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.query import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import EndpointFinding, Platform
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.platforms.iris.platform import IrisPlatform
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.sources.logs.source import Logs

PLATFORMS: Final = (IrisPlatform, RayPlatform, SlurmPlatform, BoxPlatform, LocalPlatform)
"""One class for each kind that ``[run.job] kind`` may name."""

Ask = Callable[[Platform, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]


def kind_of(run: RunSpec) -> type[Platform] | None:
    """Return what is known of a run's kind of job without asking it anything."""
    if run.job is None:
        return None
    return next(platform for platform in PLATFORMS if platform.kind == run.job.kind)


def _alarms_in(data: bytes) -> Sequence[Alarm]:
    """Return the alarming lines of some bytes; imports here: few logs are ever skipped."""
    from cockpit.rules.triage.alarms import alarms_in

    return alarms_in(data)


class Platforms:
    """One platform of each kind; asks them together, each for its own runs."""

    def __init__(self, clock: Clock, made: Sequence[Platform] | None = None) -> None:
        logs = Logs(clock, _alarms_in)
        made = [kind(clock, logs) for kind in PLATFORMS] if made is None else made
        self._by_kind = {platform.kind: platform for platform in made}

    def of(self, run: RunSpec) -> Platform | None:
        """Return the platform of a run's job; ``None`` for a run that names no job."""
        return None if run.job is None else self._by_kind[run.job.kind]

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
        return await self._by_kind[job.kind].own_jobs(job)

    async def findings(self, runs: Sequence[RunSpec]) -> list[EndpointFinding]:
        """Return what ``doctor`` says of the systems behind these runs."""
        groups = [
            platform.findings([run for run in runs if self.of(run) is platform])
            for platform in self._by_kind.values()
        ]
        return [finding for found in await asyncio.gather(*groups) for finding in found]

    async def _each(self, queries: Sequence[Query], ask: Ask) -> dict[str, Facet[Any]]:
        groups: dict[str, list[Query]] = {}
        found = {query.name: not_configured("[run.job]") for query in queries}
        for query in queries:
            if query.run.job is not None:
                groups.setdefault(query.run.job.kind, []).append(query)
        asked = (ask(self._by_kind[kind], own) for kind, own in groups.items())
        for answer in await asyncio.gather(*asked):
            found.update(answer)
        return found
