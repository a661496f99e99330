"""Many runs: what stands on a screen and what is unwell is read first, and nothing starves."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import chain

import pytest

from cockpit.model.alert import Severity
from cockpit.model.report import RunReport
from cockpit.runtime.heap import STEP, Heap
from cockpit.store.alerts import Kept
from cockpit.watch.engine import Engine
from cockpit.watch.tasks import HEAD_START, WaitingRuns
from tests.rules.test_verdict import alert
from tests.watch.fakes import START, World, until

NAMES = [f"r{number:03d}" for number in range(200)]
SCREEN = NAMES[150:160]
UNWELL = NAMES[180:190]


async def test_what_is_on_the_screen_is_asked_first_then_what_is_unwell() -> None:
    world = World(*NAMES)
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    for name in UNWELL:
        kept = Kept(alert=alert(Severity.CRITICAL), opened_at=START)
        engine._fleet.states[name].open = {kept.alert.key: kept}
    engine.prefer(SCREEN)
    told: list[RunReport] = []
    engine.subscribe(told.append)
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: len({each.name for each in told}) == len(NAMES))
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
    for facet, fake in world.fakes.items():
        asked = list(dict.fromkeys(chain.from_iterable(fake.asked)))
        assert asked[:20] == [*SCREEN, *UNWELL], facet
    first = list(dict.fromkeys(each.name for each in told))
    assert set(first[:20]) == {*SCREEN, *UNWELL}


def test_a_run_that_no_rule_has_seen_is_told_anew_only_when_there_is_more_to_say() -> None:
    world = World("a", "b")
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    first, again = engine.report().runs, engine.report().runs
    assert [each is former for each, former in zip(again, first, strict=True)] == [True, True]
    state = engine._fleet.states["a"]
    state.facets = state.facets.model_copy()
    after = engine.report().runs
    assert [each is former for each, former in zip(after, first, strict=True)] == [False, True]


def test_who_waits_long_enough_comes_before_whoever_is_preferred() -> None:
    waiting = WaitingRuns(lambda name: 0 if name.startswith("seen") else 2)
    waiting.add("other")
    taken = []
    for number in range(3 * HEAD_START):
        waiting.add(f"seen-{number}")
        taken += waiting.take(1)
    assert taken[0] == "seen-0"
    assert "other" in taken[: 2 * HEAD_START + 2]


@pytest.fixture
def thawed() -> Iterator[None]:
    former = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*former)


@pytest.mark.usefixtures("thawed")
def test_what_has_been_read_is_set_aside_a_bounded_number_of_times() -> None:
    heap = Heap()
    settled = [heap.settle(read, 1000) for read in (*range(0, 1001, 10), *[1000] * 1000)]
    assert settled.count(True) == 1000 // STEP
    assert gc.get_freeze_count() > 0
