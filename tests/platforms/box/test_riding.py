"""Logs ride in the probe of their host, and never at the cost of what rides with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.hosts.agent import LATE
from cockpit.hosts.script import run_script_blocking
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.box import platform as riding
from cockpit.platforms.box.platform import BoxLogs
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from cockpit.watch.poller import BEAT, Backoff
from tests.platforms.box.making import Here


class Steps(FixedClock):
    """A clock whose monotonic time a test moves."""

    at = 1000.0

    def monotonic(self) -> float:
        return self.at


class World:
    """Two logs on a host that is this machine; its probes and the logs' own trips are counted."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / "a.log", folder / "b.log"]
        for path in self.paths:
            path.write_text("step 1/9 loss=2.0\n")
        self.probes = self.trips = 0
        self.down: RemoteError | None = None
        self.clock = Steps(1_700_000_000.0)
        self.link = Here()
        logs = Logs(self.clock, run=self._trip)
        self.logs = BoxLogs(self.clock, logs, lambda host: self.link)

    def _trip(self, host: str | None, script: str, *, deadline: float, cap: int) -> Completed:
        self.trips += 1
        if self.down is not None:
            raise self.down.again()
        return run_script_blocking(None, script, deadline=deadline, cap=cap)

    async def look(self) -> list[Facet[LogValue]]:
        self.probes = self.trips = 0
        self.link.down, before = self.down, len(self.link.asked)
        runs = [
            RunSpec(name=path.name, job=JobSpec(kind="box", host="box", log=f"ssh://box{path}"))
            for path in self.paths
        ]
        found = list((await self.logs.observe([Query(run=run) for run in runs])).values())
        self.probes = len(self.link.asked) - before
        return found

    async def lines(self) -> list[str]:
        facets = await self.look()
        return [each.value.lines[-1].plain if each.value else str(each.error) for each in facets]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def logged(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text + "\n")


async def test_the_first_look_takes_its_own_trip_and_what_is_new_rides(world: World) -> None:
    assert await world.lines() == ["step 1/9 loss=2.0"] * 2
    assert (world.probes, world.trips) == (0, 1)
    logged(world.paths[0], "step 2/9 loss=1.0")
    assert await world.lines() == ["step 2/9 loss=1.0", "step 1/9 loss=2.0"]
    assert (world.probes, world.trips) == (1, 0)


async def test_much_that_is_new_takes_its_own_trip(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(riding, "ROOM", 4096)
    await world.look()
    for path in world.paths:
        logged(path, "x" * 9000 + "\nstep 3/9 loss=1.0")
    assert await world.lines() == ["step 3/9 loss=1.0"] * 2
    assert (world.probes, world.trips) == (1, 1)


async def test_a_log_that_is_gone_is_told_by_the_probe(world: World) -> None:
    await world.look()
    world.paths[0].unlink()
    first, second = await world.look()
    assert first.error is not None and first.error.kind is ErrorKind.NOT_FOUND
    assert second.known and world.probes == 1
    assert world.trips == 2, "the files beside it, and who still has it open: it may be renamed"


async def test_one_that_hangs_is_asked_apart_for_a_while(world: World) -> None:
    await world.look()
    world.link.hangs = lambda each: each.what == "its logs"
    world.link.released.set()
    world.link.edit = lambda each, value: [LATE, "", ""]
    logged(world.paths[0], "step 2/9 loss=1.0")
    found = await world.lines()
    assert found[0] == "step 2/9 loss=1.0"
    assert (world.probes, world.trips) == (1, 1)
    world.link.edit = lambda each, value: value
    assert await world.lines() == found
    assert (world.probes, world.trips) == (0, 1)
    world.clock.at += riding.APART
    assert await world.lines() == found
    assert (world.probes, world.trips) == (1, 0)


async def test_a_host_that_is_gone_is_asked_once(world: World) -> None:
    await world.look()
    world.down = RemoteError(ErrorKind.REFUSED, "box: Connection refused")
    for facet in await world.look():
        assert facet.error is not None and facet.error.kind is ErrorKind.REFUSED
        assert facet.error.message == "box: Connection refused"
    assert (world.probes, world.trips) == (1, 0)


def test_what_a_place_is_asked_for_falls_on_the_same_moments() -> None:
    rest = Backoff(began=100.0)
    assert rest.beat(130.004, 30.0) == 130.0
    assert rest.beat(147.3, 30.0) == 100.0 + 9 * BEAT
    assert rest.beat(105.02, 5.0) == 105.0
    assert rest.beat(107.0, 7.0) == 107.0, "never much earlier or later than is meant"
    assert Backoff().beat(130.0, 30.0) == 130.0
