"""What a fleet costs in which nothing changes: looks go on, judgements and writes do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from cockpit.model.observed import HostValue, Row
from cockpit.model.run import RunSpec
from cockpit.rules import verdict
from cockpit.store.memory import Pasts, RunMemory
from cockpit.store.opening import ReportMemory
from cockpit.store.store import Store, run_key
from cockpit.watch import reports
from cockpit.watch.engine import Engine
from cockpit.watch.judge import REJUDGE, REJUDGE_UNSEEN, REST, SAME_FOR, TICK, is_written
from cockpit.watch.poller import SWEPT_LOG, UNSEEN_LOG, cadence_of
from cockpit.watch.runstate import RunState
from cockpit.watch.tasks import LARGE
from tests.watch.fakes import SteppedClock, World, failed, until

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


@pytest.mark.parametrize(
    ("count", "after", "whose"),
    [
        (LARGE + 10, REJUDGE - 1, "none"),
        (LARGE + 10, REJUDGE, "seen"),
        (LARGE + 10, REJUDGE_UNSEEN, "all"),
        (LARGE - 10, REJUDGE, "all"),
    ],
)
def test_what_nobody_sees_of_a_large_fleet_is_judged_less_often_for_mere_time(
    count: int, after: float, whose: str
) -> None:
    world = World(*(f"r{number:03d}" for number in range(count)), cadence=900.0)
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    names = list(engine._fleet.states)
    seen = names[:5]
    engine.prefer(seen)
    for state in engine._fleet.states.values():
        state.judged_at = 100.0
    rested = engine._cadence_loop._rested(100.0 + after)
    assert rested == {"none": [], "seen": seen, "all": names}[whose]


def test_while_nothing_falls_due_the_rounds_are_looked_at_on_every_other_beat() -> None:
    world = World("a", "b", cadence=900.0)
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    loop, states = engine._cadence_loop, list(engine._fleet.states.values())
    assert loop._beat(100.0) == TICK, "one has had no round yet"
    for state in states:
        state.judged_at, state.next_round = 100.0, 500.0
    assert loop._beat(101.0) == REST
    assert loop._beat(100.0 + REJUDGE - REST) == TICK, "time alone may open an alert"
    states[1].next_round = 103.0
    assert loop._beat(101.0) == TICK, "a round is due"


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


async def test_the_table_of_verdicts_is_gone_through_once_for_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, asked = World("a", "b"), Mock(wraps=verdict.situation)
    for module in (reports, verdict):
        monkeypatch.setattr(module, "situation", asked)
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    found = await engine.check()
    assert [each.verdict.value for each in found.runs] == ["healthy", "healthy"]
    assert asked.call_count == 2


def written(**changes: object) -> RunState:
    """Return a run whose report was written down a moment ago, then changed."""
    world = World("a")
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    state = engine._fleet.states["a"]
    state.stored = engine.report().runs[0]
    state.report = state.stored.model_copy(update=changes)
    return state


def test_when_it_was_looked_at_is_no_reason_to_write_a_run_down_anew() -> None:
    state = written()
    assert state.report is not None
    at = state.report.checked_at
    soon, late = (
        state.report.model_copy(update={"checked_at": at + seconds})
        for seconds in (SAME_FOR / 3, SAME_FOR)
    )
    state.report = soon
    assert is_written(state)
    state.report = late
    assert not is_written(state), "a start after a crash shows ages of minutes, not of days"


@pytest.mark.parametrize(
    "changes", [{"next_action": "look"}, {"watched_by": "ada"}, {"verdict": "critical"}]
)
def test_what_a_report_says_is_written_when_it_changes(changes: dict[str, object]) -> None:
    assert not is_written(written(**changes))


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


def test_a_log_that_the_sweep_watches_is_asked_for_less_often_where_nobody_sees_it() -> None:
    run = RunSpec(name="a", cadence=3600.0)
    assert cadence_of("log", run) == SWEPT_LOG
    assert cadence_of("log", run, seen=False) == UNSEEN_LOG
    assert cadence_of("log", run, swept=False, seen=False) < SWEPT_LOG
