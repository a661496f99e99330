"""Goodput through whole engines: what one has watched, the next one knows; a gap is a gap."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.goodput import Goodput
from cockpit.model.observed import JobValue, Phase, Row
from cockpit.runtime.offload import Pool
from cockpit.store.store import Store
from tests.watch.fakes import FastClock, World, failed
from tests.watch.test_engine import run_of, watching

SETTLED = 50
"""Turns of the event loop without anything in a thread, after which nobody has more to do."""
PATIENCE = 200.0
"""Seconds of its own clock in which an engine must know what it is asked."""


class Hours(FastClock):
    """Time that jumps to whoever wakes first, once nobody has anything left to do until then.

    However late the machine is: what is done in a thread takes no time, and nobody is overtaken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.under_way: set[asyncio.Future[object]] = set()
        """What is being done in threads."""
        self._at = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()
        self._moves: asyncio.Task[None] | None = None

    def monotonic(self) -> float:
        return self._at

    def pass_by(self, seconds: float) -> None:
        self._at += seconds

    async def sleep(self, seconds: float) -> None:
        wakes = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._at + seconds, next(self._number), wakes))
        if self._moves is None or self._moves.done():
            self._moves = asyncio.create_task(self._move())
        await wakes

    async def _move(self) -> None:
        while self._sleepers:
            await self._all_is_done()
            at, _, wakes = heappop(self._sleepers)
            if not wakes.done():
                self._at = max(self._at, at)
                wakes.set_result(None)

    async def _all_is_done(self) -> None:
        quiet = 0
        while quiet < SETTLED:
            await asyncio.sleep(0.0005 if self.under_way else 0.0)
            quiet = 0 if self.under_way else quiet + 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hours:
    hours, submit = Hours(), Pool.submit

    def counted(pool: Pool, call: Any, loop: asyncio.AbstractEventLoop) -> None:
        hours.under_way.add(call.future)
        call.future.add_done_callback(hours.under_way.discard)
        submit(pool, call, loop)

    monkeypatch.setattr(Pool, "submit", counted)
    return hours


class Life(World):
    """A run that trains a step a second, on a clock that only waiting moves on."""

    clock: Hours

    def __init__(self, clock: Hours) -> None:
        super().__init__(cadence=10.0, clock=clock)
        self.trained(1, 120, self.clock.now() - 120.0)

    def trained(self, first: int, last: int, begin: float) -> None:
        self.tracker.rows += [
            Row(step, begin + step - first, 2.0) for step in range(first, last + 1)
        ]


async def account(life: Life, store: Store, phase: Phase) -> Goodput:
    """What an engine of its own says once it has seen this phase, and watched for five cadences."""
    life.tracker.read = 0
    async with watching(life, store) as engine:
        began = life.clock.now()
        while not _known(engine, phase, began + 50.0):
            assert life.clock.now() < began + PATIENCE, "it never knew"
            await life.clock.sleep(1.0)
        found = run_of(engine).goodput
    assert found is not None
    return found


def _known(engine: object, phase: Phase, at: float) -> bool:
    """Tell whether a report made past ``at`` knows the phase: the clock runs on meanwhile."""
    report = run_of(engine)  # type: ignore[arg-type]
    job = report.facets.job.value
    account = report.goodput
    if job is None or account is None:
        return False
    return job.phase is phase and account.until > at and bool(account.split)


async def test_what_an_engine_saw_is_known_to_the_next_and_what_none_saw_is_unwatched(
    tmp_path: Path, clock: Hours
) -> None:
    life, store = Life(clock), Store(tmp_path / "store.sqlite")
    begin = life.clock.now()
    life.fakes["job"].value = JobValue(
        id="pid:1", state="running", phase=Phase.RUNNING, started_at=begin - 125.0
    )
    first = await account(life, store, Phase.RUNNING)
    assert first.split.productive_s >= 118.0
    assert first.split.starting_s == 5.0
    died = life.clock.now()
    life.fakes["job"].value = failed(died)
    watched = await account(life, store, Phase.FAILED)
    assert 45.0 <= watched.split.down_s <= life.clock.now() - died
    assert watched.split.unwatched_s == 0.0

    life.clock.pass_by(1000.0)  # nobody watches; a job that no system dates comes and runs
    life.trained(101, 140, life.clock.now() - 40.0)
    life.fakes["job"].value = JobValue(id="pid:2", state="running", phase=Phase.RUNNING)
    again = await account(life, store, Phase.RUNNING)
    assert again.steps_lost == 20
    assert again.restarts.total == 1
    assert again.split.rework_s == 19.0
    assert 900.0 <= again.split.unwatched_s <= 1000.0
    assert watched.split.down_s <= again.split.down_s <= watched.split.down_s + 1.0
    assert again.share is not None
    lost = again.until - again.since - again.split.unwatched_s - again.split.productive_s
    assert abs(again.share - again.split.productive_s / (lost + again.split.productive_s)) < 1e-9
