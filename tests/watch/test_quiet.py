"""Large fleets stay cheap: bounded work, quiet runs."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import pytest

from cockpit.model.alert import Severity
from cockpit.model.clock import FixedClock
from cockpit.model.observed import HostValue, Row
from cockpit.model.report import RunReport
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.sources.logs.source import Logs
from cockpit.sources.wandb.online import Wandb
from cockpit.store.alerts import Kept
from cockpit.store.memory import Pasts, RunMemory
from cockpit.store.store import ReportMemory, Store, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.judge import is_written
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.reports import case_of, judged
from cockpit.watch.runstate import LOG_ROWS, RunState
from cockpit.watch.sweep import HEAD_START, WaitingRuns
from tests.queries import queries_of
from tests.rules.test_verdict import alert
from tests.sources.wandb import writer
from tests.watch.fakes import START, SteppedClock, World, failed, until

ROUNDS = 5


@asynccontextmanager
async def watching(world: World, store: Store | None) -> AsyncIterator[Engine]:
    engine = Engine(world.file, store=store, clock=world.clock, sources=world.sources)
    task = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_unchanged_is_observed_each_cadence_and_written_down_once(
    tmp_path: Path,
) -> None:
    world = World("a", cadence=4.0, clock=SteppedClock())
    store, key = Store(tmp_path / "s.sqlite"), run_key("/x/cockpit.toml", "a")
    async with watching(world, store):
        memory = RunMemory(store)
        await until(lambda: memory.observations(key))
        begun = len(Pasts(store).moments(key))
        await until(lambda: len(memory.observations(key)) >= ROUNDS)
        assert len(Pasts(store).moments(key)) <= begun + 1
        world.fakes["job"].value = failed(world.clock.now())
        await until(lambda: Pasts(store).moments(key)[-1].verdict.value != "healthy")
        await until(lambda: _remembers_the_end(store, key))


def _remembers_the_end(store: Store, key: str) -> bool:
    report = ReportMemory(store).report(key)
    return (
        report is not None
        and report.facets.job.value is not None
        and (report.facets.job.value.exit_code == 1)
    )


async def test_rows_are_asked_for_only_where_the_look_has_found_some() -> None:
    world = World("a", cadence=4.0)
    world.tracker.rows = [Row(step, float(step), 2.5) for step in range(10)]
    looks = world.tracker.asked
    async with watching(world, None) as engine:
        rows = engine._fleet.states["a"].rows
        await until(lambda: rows.complete)
        world.tracker.unread = False
        looked = len(looks)
        await until(lambda: len(looks) >= looked + 2)
        asked, looked = world.tracker.asked_for_rows, len(looks)
        await until(lambda: len(looks) >= looked + 3)
        assert world.tracker.asked_for_rows == asked
        world.tracker.rows.append(Row(10, 10.0, 2.5))
        world.tracker.unread = True
        await until(lambda: rows.trend.pace.step == 10)


def written(**changes: object) -> RunState:
    """Return a run whose report was written down a moment ago, then changed."""
    world = World("a")
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    state = engine._fleet.states["a"]
    state.stored = engine.report().runs[0]
    state.report = state.stored.model_copy(update=changes)
    return state


@pytest.mark.parametrize(("used", "same"), [(0.31, True), (0.97, False)])
def test_a_host_at_ease_is_no_reason_to_write_and_one_that_presses_is(
    used: float, same: bool
) -> None:
    state = written()
    assert state.stored is not None and state.report is not None
    for name, share in (("stored", 0.3), ("report", used)):
        report = state.stored if name == "stored" else state.report
        host = report.facets.host.model_copy(
            update={"value": HostValue(mem_frac=share, load=share)}
        )
        facets = report.facets.model_copy(update={"host": host})
        setattr(state, name, report.model_copy(update={"facets": facets}))
    assert is_written(state) is same


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


def test_who_waits_long_enough_comes_before_whoever_is_preferred() -> None:
    waiting = WaitingRuns(lambda name: 0 if name.startswith("seen") else 2)
    waiting.add("other")
    taken = []
    for number in range(3 * HEAD_START):
        waiting.add(f"seen-{number}")
        taken += waiting.take(1)
    assert taken[0] == "seen-0"
    assert "other" in taken[: 2 * HEAD_START + 2]


NOW = 1_800_000_000.0
PORTION = 600
FULL = 6
"""Portions after which every window is full: 3,600 rows."""
LIMIT = 1.25
"""A chart's columns are halved when there are too many, and fill again."""
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def held_by(*roots: object) -> int:
    """Return the bytes of all objects that can be reached, but for code."""
    seen: set[int] = set()
    waiting: list[object] = list(roots)
    total = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total


class Growing:
    """A run whose log and W&B file get new rows, and all that a watch holds of it."""

    def __init__(self, folder: Path) -> None:
        self.log, self.file = folder / "run.log", folder / "run-abcd1234.wandb"
        self.size = self.file.write_bytes(writer.log([writer.run("abcd1234", NOW - 1e6)]))
        self.log.write_bytes(b"begin\n")
        job = JobSpec(kind="local", log=str(self.log))
        run = RunSpec(name="r", job=job, wandb=WandbSpec(dir=str(self.file)))
        self.clock = FixedClock(NOW)
        self.logs, self.tracker = Logs(self.clock), Wandb(self.clock)
        self.state = RunState(run, "k")
        self.step = 0

    def write(self) -> None:
        """Add a portion of rows to both files."""
        steps = range(self.step, self.step + PORTION)
        self.step += PORTION
        rows = [writer.row(n, f"{2 + n % 7 / 10}", NOW - 1e6 + n) for n in steps]
        with self.file.open("ab") as file:
            self.size += file.write(writer.frame(rows, self.size))
        with self.log.open("ab") as file:
            file.writelines(b"iter %d: loss 2.%d, time 13ms\n" % (n, n % 7) for n in steps)

    async def look(self) -> None:
        """Ask, fold and judge, as a watch does."""
        queries = queries_of([self.state.spec])
        self.state.take("log", (await self.logs.observe(queries))["r"])
        while not (await feed_chunk(self.tracker, self.state.spec, self.state.rows)).caught_up:
            pass
        self.state.take("tracker", (await self.tracker.observe(queries))["r"])
        self.state.log_trend = judged(case_of(self.state, NOW)).log_trend

    @property
    def held(self) -> int:
        """Bytes of what is kept until the next look."""
        return held_by(self.state, self.logs, self.tracker)


async def test_a_run_s_memory_does_not_grow_with_its_rows(tmp_path: Path) -> None:
    growing, sizes = Growing(tmp_path), []
    for _ in range(2 * FULL + 2):
        growing.write()
        await growing.look()
        sizes.append(growing.held)
    value = growing.state.facets.log.value
    assert value is not None and len(value.rows) == LOG_ROWS and growing.state.log_rows == ()
    assert growing.state.rows.full.rows == growing.step
    first, later = max(sizes[:FULL]), max(sizes[FULL:])
    assert later < LIMIT * first, sizes
