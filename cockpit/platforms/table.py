"""Every kind of job, asked through one class; the rows of the kinds are in ``kinds.py``.

A platform is loaded with the first run of its kind: few fleets have more than two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import OwnJob, Query
from cockpit.model.logtext import Alarm
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import EndpointFinding, Platform
from cockpit.platforms.kinds import PLATFORMS
from cockpit.sources.logs.source import Logs

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
