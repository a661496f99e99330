"""What nobody has asked since the engine started is neither well nor sick."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.base import SafeText
from cockpit.model.facet import UNASKED, ErrorKind, unknown
from cockpit.model.observed import LogValue, Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from cockpit.watch import reports
from cockpit.watch.engine import Engine
from cockpit.watch.reports import case_of, judged, report_of, unruled
from cockpit.watch.runstate import CORE, RunState
from tests.watch.fakes import START, World, failed, run_spec, running, until
from tests.watch.test_engine import run_of, watching
from widgets.fleet_header import Watch, paint_header
from widgets.painting.facts import phase_words


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

    async with watching(world, store) as engine:
        await until(lambda: all(r.verdict is Verdict.HEALTHY for r in engine.report().runs))
        await until(lambda: all(r.next_check_at for r in engine.report().runs))
        await until(lambda: all(map(known_to_be_well, names)))
    return world


async def test_a_fleet_whose_jobs_were_not_asked_is_not_well(store: Store) -> None:
    world = await well_once(store, "a", "b", "c")
    world.fakes["job"].hanging = {"a", "b", "c"}
    world.fakes["job"].value = failed(world.clock.now())
    told: list[RunReport] = []
    async with watching(world, store) as engine:
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

    async with watching(world, store) as engine:
        await until(lambda: opened(engine) and run_of(engine).next_check_at)
    began = world.clock.now()
    job.answers["r"] = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", began)
    async with watching(world, store) as engine:
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
    async with watching(world, store) as engine:
        await until(lambda: (last := last_report(store, world)) and last.facets.log.known)
    log.answers["r"] = unknown(ErrorKind.TIMEOUT, "no answer", "cluster", world.clock.now())
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).not_read_yet is None)
        facet, step = run_of(engine).facets.log, run_of(engine).progress.step
        assert facet.error is not None and facet.error.kind is ErrorKind.TIMEOUT
        assert step == 31


@pytest.mark.parametrize("facet", sorted(CORE))
async def test_no_core_facet_may_be_missing_from_an_all_clear(facet: str) -> None:
    world = World()
    world.fakes[facet].hanging = {"r"}
    async with watching(world) as engine:
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
    async with watching(world) as engine:
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
    async with watching(world, store) as engine:
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
