"""Runs whose jobs a controller on a loopback port has, and the platform that asks it."""

from __future__ import annotations

from typing import Any

from cockpit.model.clock import Clock, SystemClock
from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.platforms.iris.platform import IrisPlatform
from cockpit.sources.logs.source import Logs


def run_of(url: str, job_id: str | None, name: str = "toy", **more: Any) -> RunSpec:
    job = {"kind": "iris", "controller_url": url, "id": job_id} | more.pop("job", {})
    return RunSpec.model_validate({"name": name, "job": job, **more})


def platform_of(clock: Clock | None = None) -> IrisPlatform:
    clock = clock or SystemClock()
    return IrisPlatform(clock, Logs(clock))


async def facets(platform: IrisPlatform, *runs: RunSpec) -> dict[str, Facet[JobValue]]:
    return dict(await platform.jobs([Query(run=run) for run in runs]))


async def facet(platform: IrisPlatform, run: RunSpec) -> Facet[JobValue]:
    return (await facets(platform, run))[run.name]


async def value(platform: IrisPlatform, run: RunSpec) -> JobValue:
    found = await facet(platform, run)
    assert found.value is not None and found.error is None, found.error
    return found.value


class Later(SystemClock):
    """The machine's clock, which a test moves on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead
