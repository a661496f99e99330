"""A cluster of another machine, as a platform: it counts its requests and hangs when told to."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cockpit.model.facet import Facet, known
from cockpit.model.jobs import Query
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.table import Platforms
from cockpit.sources.logs.source import Logs
from cockpit.watch.asking import Bulk
from tests.watch.fakes import FastClock, World, running

CLUSTER = "slurm cluster"


class Cluster(SlurmPlatform):
    """Slurm of one login node. ``asked`` holds (facet, when, names) of each request."""

    log_needs_job: ClassVar[bool] = True

    def __init__(self, clock: FastClock) -> None:
        super().__init__(clock, Logs(clock))
        self.clock = clock
        self.asked: list[tuple[str, float, tuple[str, ...]]] = []
        self.given: list[Sequence[Query]] = []
        self.hangs = False
        self.answer: Callable[[str], Facet[Any]] | None = None

    def requests(self, facet: str) -> list[tuple[str, ...]]:
        return [names for each, _, names in self.asked if each == facet]

    def times(self, facet: str) -> list[float]:
        return [at for each, at, _ in self.asked if each == facet]

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        return await self._ask("job", queries, running(0.0))

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        self.given.append(queries)
        at = self.clock.now()  # every look finds a new line
        return await self._ask("log", queries, LogValue(path="/x", size=1, mtime=at))

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        return await self._ask("host", queries, HostValue())

    async def _ask(
        self, facet: str, queries: Sequence[Query], value: Any
    ) -> Mapping[str, Facet[Any]]:
        names = tuple(query.name for query in queries)
        self.asked.append((facet, self.clock.monotonic(), names))
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        found = self.answer(facet) if self.answer else known(value, "cluster", self.clock.now())
        return dict.fromkeys(names, found)


def on_cluster(name: str, cadence: float = 900.0) -> RunSpec:
    log = place_of("ssh://cluster/logs/run.log")
    job = JobSpec(kind="slurm", host="cluster", id="1", log=log)
    return RunSpec(name=name, cadence=cadence, job=job, final_step=1000)


def world_of(cluster: Cluster, runs: Sequence[RunSpec]) -> World:
    """Return a fleet whose jobs, logs and hosts are asked through the real platforms."""
    world = World(clock=cluster.clock)
    world.file = world.file.model_copy(update={"runs": tuple(runs)})
    world.tracker.value = None
    clock = cluster.clock
    others = [kind(clock, Logs(clock)) for kind in (BoxPlatform, LocalPlatform)]
    platforms = Platforms(clock, [cluster, *others])
    world.sources = dataclasses.replace(
        world.sources,
        job=Bulk(platforms.jobs),
        log=Bulk(platforms.logs),
        host=Bulk(platforms.hosts),
        platform_of=platforms.of,
    )
    return world
