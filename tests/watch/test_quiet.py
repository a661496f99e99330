"""Large fleets stay cheap: bounded work, quiet runs.

What nobody has asked since the engine started is neither well nor sick.
"""

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
from cockpit.model.base import SafeText
from cockpit.model.clock import FixedClock
from cockpit.model.facet import UNASKED, ErrorKind, known, unknown
from cockpit.model.observed import HostValue, JobValue, LogValue, Phase, Row
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.sources.logs.source import Logs
from cockpit.sources.wandb.online import Wandb
from cockpit.store.alerts import Kept
from cockpit.store.launches import Ended
from cockpit.store.memory import Pasts, RunMemory
from cockpit.store.store import ReportMemory, Store, run_key
from cockpit.watch import reports
from cockpit.watch.engine import Engine
from cockpit.watch.judge import is_written
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.reports import case_of, judged, report_of, unruled
from cockpit.watch.runstate import CORE, LOG_ROWS, RunState
from cockpit.watch.store_writer import Shared
from cockpit.watch.sweep import HEAD_START, WaitingRuns
from tests.queries import queries_of
from tests.rules.test_judge import alert
from tests.sources.wandb import writer
from tests.watch.fakes import START, SteppedClock, World, failed, run_spec, running, until
from tests.watch.test_engine import run_of
from tests.watch.test_engine import watching as read_yet_watching
from widgets.fleet_header import Watch, paint_header
from widgets.painting.facts import phase_words

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


def head(runs: tuple[RunReport, ...]) -> str:
    return paint_header(runs, Watch(), runs, 200).plain


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def last_report(store: Store, world: World, name: str = "r") -> RunReport | None:
    """Return what is kept of a run: what it will be recalled by."""
    return RunMemory(store).report(run_key(world.file.path, name))


async def well_once(store: Store, *names: str) -> World:
    """A fleet that was healthy when its last engine ended."""
    world = World(*names, cadence=4.0)

    def known_to_be_well(name: str) -> bool:
        last = last_report(store, world, name)
        return last is not None and last.verdict is Verdict.HEALTHY and last.facets.job.known

    async with read_yet_watching(world, store) as engine:
        await until(lambda: all(r.verdict is Verdict.HEALTHY for r in engine.report().runs))
        await until(lambda: all(r.next_check_at for r in engine.report().runs))
        await until(lambda: all(map(known_to_be_well, names)))
    return world


async def test_a_fleet_whose_jobs_were_not_asked_is_not_well(store: Store) -> None:
    world = await well_once(store, "a", "b", "c")
    world.fakes["job"].hanging = {"a", "b", "c"}
    world.fakes["job"].value = failed(world.clock.now())
    told: list[RunReport] = []
    async with read_yet_watching(world, store) as engine:
        engine.subscribe(told.append)
        await until(lambda: len({each.name for each in told}) == 3)
        assert "3 runs   ◷ 3 not read yet    " in head(tuple(told[:3]))
        for report in told[:3]:
            assert report.verdict is Verdict.UNKNOWN and report.progress.eta_s is None
            assert report.facets.job.remembered and report.facets.job.observed_at is not None
            assert report.document()["not_read_yet"]
            assert report.document()["facets"]["job"]["remembered"] is True
        world.fakes["job"].hanging = set()
        await until(lambda: all(r.verdict is Verdict.CRITICAL for r in engine.report().runs))
        assert "■ 3 critical" in head(engine.report().runs)
        await until(lambda: all(r.not_read_yet is None for r in engine.report().runs))
        assert "not read" not in head(engine.report().runs)
    assert Verdict.HEALTHY not in {each.verdict for each in told}


async def test_what_a_silent_place_told_the_engine_before_closes_nothing(store: Store) -> None:
    world = World(cadence=4.0)
    job = world.fakes["job"]
    wants = {"state": "PENDING", "phase": Phase.WAITING, "started_at": None}
    job.value = running(world.clock.now()).model_copy(update={**wants, "never": True})

    def opened(engine: Engine) -> bool:
        return "C-04" in {alert.id for alert in run_of(engine).alerts}

    async with read_yet_watching(world, store) as engine:
        await until(lambda: opened(engine) and run_of(engine).next_check_at)
    began = world.clock.now()
    job.answers["r"] = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", began)
    async with read_yet_watching(world, store) as engine:
        await until(lambda: run_of(engine).checked_at > began + 12.0)
        assert opened(engine) and run_of(engine).not_read_yet is None
        del job.answers["r"]
        job.value = running(world.clock.now())
        await until(lambda: not opened(engine))


async def test_the_last_step_of_a_log_that_is_silent_since_the_start_is_kept(store: Store) -> None:
    world = World(cadence=4.0)
    log, now = world.fakes["log"], world.clock.now()
    world.tracker.value = None
    lines = tuple(SafeText(plain=f"step {step}/1000 loss 2.0") for step in (3, 31))
    log.value = LogValue(path="/x/log", size=9, mtime=now + 9.0, lines=lines)
    async with read_yet_watching(world, store) as engine:
        await until(lambda: (last := last_report(store, world)) and last.facets.log.known)
    log.answers["r"] = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", world.clock.now())
    async with read_yet_watching(world, store) as engine:
        await until(lambda: run_of(engine).not_read_yet is None)
        facet, step = run_of(engine).facets.log, run_of(engine).progress.step
        assert facet.error is not None and facet.error.kind is ErrorKind.TIMEOUT
        assert step == 31


@pytest.mark.parametrize("facet", sorted(CORE))
async def test_no_core_facet_may_be_missing_from_an_all_clear(facet: str) -> None:
    world = World()
    world.fakes[facet].hanging = {"r"}
    async with read_yet_watching(world) as engine:
        said = f"{facet}: not asked since this engine started"
        await until(lambda: run_of(engine).not_read_yet == said)
        assert run_of(engine).verdict is Verdict.UNKNOWN
        world.fakes[facet].hanging = set()
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
        assert run_of(engine).not_read_yet is None


async def test_rows_that_nobody_has_read_make_no_run_healthy() -> None:
    world = World()
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    state = engine._fleet.states["r"]
    for name, fake in world.fakes.items():
        state.take(name, (await fake.observe([state.spec]))["r"])
    await engine._judge.judge(["r"])
    assert (run_of(engine).verdict, run_of(engine).not_read_yet) == (
        Verdict.UNKNOWN, "the tracker's rows are not read yet",
    )  # fmt: skip
    state.rows.tried = True
    await engine._judge.judge(["r"])
    assert run_of(engine).verdict is Verdict.HEALTHY


async def test_a_run_that_the_rules_fail_on_stays_healthy_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(cadence=4.0)
    async with read_yet_watching(world) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)

        def fails(*_: object) -> None:
            raise KeyError("loss")

        monkeypatch.setattr(reports, "judge", fails)
        await until(lambda: run_of(engine).verdict is Verdict.UNKNOWN)
        assert "internal error" in run_of(engine).next_action
        monkeypatch.undo()
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)


async def test_a_job_that_nobody_has_asked_for_yet_is_not_said_to_be_none(store: Store) -> None:
    world = World("a", cadence=4.0)
    world.fakes["job"].hanging = {"a"}
    told: list[RunReport] = []
    async with read_yet_watching(world, store) as engine:
        engine.subscribe(told.append)
        await until(lambda: any(each.facets.tracker.known for each in told))
        assert {phase_words(each, world.clock.now()) for each in told} == {"NOT READ YET"}
        world.fakes["job"].hanging = set()
        await until(lambda: told[-1].facets.job.known)
    assert all(each.facets.job.configured for each in told)


def test_what_nobody_has_asked_for_is_unknown_since_no_time() -> None:
    """As a time it would be the last judging's: news each time, and no fact in a log entry."""
    state = RunState(run_spec("r"), "k")
    cases = [case_of(state, START + later) for later in (0.0, 60.0)]
    first, then = (report_of(judged(case), (), state) for case in cases)
    assert first.facets.job.error == UNASKED and first.facets.job.since is None
    assert then.facets == first.facets


def test_a_job_unasked_is_not_said_to_be_none_where_the_rules_fail() -> None:
    state = RunState(run_spec("r"), "k")
    report = unruled(case_of(state, START), state)
    assert phase_words(report, START) == "NOT READ YET"


@pytest.mark.parametrize(
    ("severity", "unwell"),
    [(Severity.INFO, False), (Severity.WARNING, True), (Severity.CRITICAL, True)],
)
def test_a_run_is_unwell_while_more_than_a_reminder_is_open(
    severity: Severity, unwell: bool
) -> None:
    state = RunState(run_spec("r"), "k")
    assert not state.unwell
    kept = Kept(alert=alert(severity), opened_at=1.0)
    state.open = {kept.alert.key: kept}
    assert state.unwell is unwell
    state.see()
    assert state.unwell is unwell
    state.open = {}
    assert not state.unwell


@pytest.mark.parametrize(("started", "over"), [(100.0, True), (900.0, False)])
def test_the_end_of_a_requeued_job_is_another_end(started: float, over: bool) -> None:
    """Its id is the same: what was acknowledged is the end of the first start only."""
    state = RunState(run_spec("r"), "k")
    value = JobValue(id="12", state="FAILED", phase=Phase.FAILED, started_at=started)
    state.take("job", known(value, "test", 1000.0))
    assert not state.over
    state.shared = Shared(ended=(Ended(job_id="12", started_at=100.0, at=500.0),))
    assert state.over is over


def test_which_facets_fail_is_as_it_was_while_none_begins_or_ends_to() -> None:
    state = RunState(run_spec("r"), "k")
    lost = unknown(ErrorKind.TIMEOUT, "no answer", "test", 1.0)
    job = known(JobValue(id="1", state="R", phase=Phase.RUNNING), "test", 2.0)
    log = known(LogValue(path="/l", size=9, mtime=1.0), "test", 1.0)
    looks = [("job", lost), ("log", log), ("job", job), ("tracker", lost), ("job", job)]
    failing = [(state.take(name, facet), state.failing)[1] for name, facet in looks]
    assert failing == [("job",), ("job",), (), ("tracker",), ("tracker",)]
