import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cockpit.model.alert import Acknowledgement
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.observed import HostValue, JobValue, LogValue, Phase, Row, Triage
from cockpit.model.report import RunReport, Verdict
from cockpit.store.alerts import Alerts
from cockpit.store.launches import Endings
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from cockpit.text.safe import safe_line
from cockpit.watch.engine import Engine
from tests.watch.fakes import World, checkpoints, failed, running, tracker_value, until


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


@asynccontextmanager
async def watching(world: World, store: Store | None = None) -> AsyncIterator[Engine]:
    engine = Engine(world.file, store=store, clock=world.clock, sources=world.sources)
    loop = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def run_of(engine: Engine, name: str = "r") -> RunReport:
    return next(run for run in engine.report().runs if run.name == name)


def kind_of(engine: Engine, facet: str, name: str = "r") -> ErrorKind | None:
    error = dict(run_of(engine, name).facets.items())[facet].error
    return None if error is None else error.kind


def take_the_end(store: Store, world: World, job_id: str | None) -> None:
    key = run_key(world.file.path, "r")
    Endings(Store(store.path)).acknowledge(key, job_id, None, "ada", world.clock.now())


def log_value(now: float, *lines: str) -> LogValue:
    return LogValue(
        path="/x/log", size=9, mtime=now, last_line_at=now, lines=tuple(map(safe_line, lines))
    )


async def test_every_facet_arrives_and_the_run_is_judged() -> None:
    world = World()
    async with watching(world) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
        report = run_of(engine)
    assert report.facets.job.known
    assert report.progress.text == "~5/1000"
    assert not report.facets.host.configured


async def test_a_hanging_facet_delays_no_other_and_becomes_unknown() -> None:
    world = World(cadence=4.0)
    world.fakes["host"].hanging = {"r"}
    async with watching(world) as engine:
        await until(lambda: run_of(engine).facets.job.known)
        job_asked = len(world.fakes["job"].asked)
        await until(lambda: kind_of(engine, "host") is ErrorKind.TIMEOUT)
        problem = run_of(engine).facets.host.error
        assert len(world.fakes["job"].asked) > job_asked + 1
    assert problem is not None
    assert problem.kind is ErrorKind.TIMEOUT


async def test_a_host_that_nobody_sees_is_judged_at_once_when_it_answers_no_more_or_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    now, judged = world.clock.now(), list[str]()
    monkeypatch.setattr(engine._judge, "touch", judged.append)
    calm = [HostValue(disks=(), mem_frac=0.3, oom_kills=0, load=load, gpus=()) for load in (1, 2)]
    gone = unknown(ErrorKind.TIMEOUT, "no answer within 5 s", "fake", now)
    for look, told in (
        (known(calm[0], "fake", now), 1),
        (known(calm[1], "fake", now), 0),
        (gone, 1),
        (gone, 0),
        (known(calm[1], "fake", now), 1),
    ):
        judged.clear()
        engine._observed("host", {"r": look})
        assert len(judged) == told


async def test_one_run_that_hangs_delays_no_other_of_its_system() -> None:
    world = World("a", "b", "c", cadence=4.0)
    world.fakes["checkpoints"].value = checkpoints(1)
    world.fakes["checkpoints"].hanging = {"b"}
    async with watching(world) as engine:
        await until(lambda: run_of(engine, "c").facets.checkpoints.known)
        await until(lambda: kind_of(engine, "checkpoints", "b") is ErrorKind.TIMEOUT)
        before = len(world.fakes["checkpoints"].asked)
        await until(
            lambda: sum("a" in names for names in world.fakes["checkpoints"].asked[before:]) >= 3
        )
        assert run_of(engine, "a").facets.checkpoints.known
        alone = [names for names in world.fakes["checkpoints"].asked[before:] if "b" in names]
    assert all(names == ("b",) for names in alone)


async def test_a_failed_look_keeps_the_last_good_value_with_its_age() -> None:
    world = World(cadence=4.0)
    async with watching(world) as engine:
        await until(lambda: run_of(engine).facets.job.known)
        seen = run_of(engine).facets.job.observed_at
        refused = unknown(ErrorKind.REFUSED, "no answer", "fake", world.clock.now())
        world.fakes["job"].answers["r"] = refused
        await until(lambda: run_of(engine).facets.job.error == refused.error)
        facet = run_of(engine).facets.job
    assert facet.value is not None and facet.value.phase is Phase.RUNNING
    assert facet.observed_at is not None and seen is not None and facet.observed_at >= seen
    assert not facet.known


async def test_a_refusal_is_asked_for_ever_more_seldom() -> None:
    world = World(cadence=60.0, speed=200.0)
    refused = unknown(ErrorKind.REFUSED, "no answer", "fake", world.clock.now())
    world.fakes["host"].answers["r"] = refused
    world.fakes["code"].value = None
    async with watching(world):
        await until(lambda: len(world.fakes["job"].asked) >= 12)
    assert len(world.fakes["host"].asked) < len(world.fakes["job"].asked) / 1.4
    assert len(world.fakes["code"].asked) == 1


async def test_subscribers_hear_of_news_only() -> None:
    world = World(cadence=4.0)
    told: list[RunReport] = []
    async with watching(world) as engine:
        engine.subscribe(told.append)
        await until(lambda: told and told[-1].verdict is Verdict.HEALTHY)
        await until(lambda: len(world.fakes["job"].asked) >= 3)
        count = len(told)
        await until(lambda: len(world.fakes["job"].asked) >= 6)
        assert len(told) - count <= 4
        world.tracker.value = tracker_value(world.clock.now(), step=77)
        await until(lambda: told[-1].progress.step == 77)


async def test_who_leaves_hears_no_more() -> None:
    world = World(cadence=4.0)
    told: list[RunReport] = []
    async with watching(world) as engine:
        leave = engine.subscribe(told.append)
        await until(lambda: told)
        leave()
        leave()
        count = len(told)
        world.tracker.value = tracker_value(world.clock.now(), step=78)
        await until(lambda: run_of(engine).progress.step == 78)
    assert len(told) == count


async def test_an_alert_opens_is_stored_and_closes_unseen(store: Store) -> None:
    world = World(cadence=4.0)
    key = run_key(world.file.path, "r")
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
        world.fakes["job"].value = failed(world.clock.now())
        await engine.poke("r", "job")
        await until(lambda: [alert.id for alert in run_of(engine).alerts] == ["C-01"])
        await until(lambda: Alerts(store).open(key))
        since = run_of(engine).alerts[0].since
        world.fakes["job"].value = running(world.clock.now())
        await until(lambda: not run_of(engine).alerts)
        await until(lambda: Alerts(store).closed(key, 0.0))
        report = run_of(engine)
    assert [(gone.alert.id, gone.seen) for gone in report.closed] == [("C-01", False)]
    assert report.closed[0].alert.since == since
    phases = [mark.phase for mark in RunMemory(store).phases(key)]
    assert phases == [Phase.RUNNING, Phase.FAILED, Phase.RUNNING]


@pytest.mark.parametrize(("made", "told"), [(failed, "pid:1"), (running, None)])
async def test_the_jobs_source_is_told_of_an_end_that_another_cockpit_saw(
    made: Callable[[float], JobValue], told: str | None, store: Store
) -> None:
    """What has forgotten the job since makes no end unknown; one that ran may have gone on."""
    world = World()
    world.fakes["job"].value = made(world.clock.now())
    kept, key = RunMemory(store), run_key(world.file.path, "r")
    async with watching(world, store):
        await until(lambda: (last := kept.report(key)) is not None and last.facets.job.known)
    world.fakes["job"].given.clear()
    later = Engine(world.file, store=Store(store.path), clock=world.clock, sources=world.sources)
    await later.check()
    ((asked,),) = world.fakes["job"].given
    assert told == (None if asked.ended is None else asked.ended.id)


async def test_an_acknowledged_alert_stays_acknowledged_in_another_cockpit(store: Store) -> None:
    world = World(cadence=4.0)
    world.fakes["job"].value = failed(world.clock.now())
    other = Store(store.path)
    async with watching(world, store) as first, watching(world, other) as second:
        await until(lambda: run_of(first).alerts and run_of(second).alerts)
        key = run_of(first).alerts[0].key
        assert not first.over("r")
        await until(lambda: Alerts(store).open(run_key(world.file.path, "r")))
        ada = Acknowledgement(by="ada", at=world.clock.now())
        assert Alerts(Store(store.path)).acknowledge(run_key(world.file.path, "r"), key, ada)
        await until(lambda: first.over("r"))
        await until(lambda: run_of(second).alerts[0].acknowledged is not None)
        taken = run_of(second).alerts[0].acknowledged
        assert second.over("r")
    assert taken is not None and taken.by == "ada"
    assert len(Alerts(store).open(run_key(world.file.path, "r"))) == 1


async def test_a_finished_run_is_over_once_somebody_says_so(store: Store) -> None:
    world = World(cadence=4.0)
    done = running(world.clock.now()).model_copy(
        update={"phase": Phase.SUCCEEDED, "state": "exited"}
    )
    world.fakes["job"].value = done
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).facets.job.known)
        assert not engine.over("r")
        take_the_end(store, world, "pid:1")
        await until(lambda: engine.over("r"))
    async with watching(world, store) as again:
        await until(lambda: again.over("r"))


async def test_a_run_known_by_its_tracker_alone_is_over_as_well(store: Store) -> None:
    world = World(cadence=4.0)
    named = world.file.runs[0]
    alone = named.model_copy(update={"job": None})
    world.file = world.file.model_copy(update={"runs": (alone,)})
    world.fakes["job"].value = None
    done = {"state": "finished", "exit_code": 0}
    world.tracker.value = tracker_value(world.clock.now(), **done)
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.FINISHED)
        assert not engine.over("r")
        take_the_end(store, world, None)
        await until(lambda: engine.over("r"))


async def test_the_first_paint_comes_from_the_store(store: Store) -> None:
    world = World(cadence=4.0)
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
    again = Engine(world.file, store=store, clock=world.clock, sources=world.sources)
    assert again.report().runs[0].verdict is Verdict.UNKNOWN
    await again.recall()
    assert again.report().runs[0].progress.text == "~5/1000"
    assert again.report().runs[0].facets.job.observed_at is not None


async def test_every_row_is_folded_and_the_tracker_is_looked_at_again() -> None:
    world = World(cadence=4.0)
    now = world.clock.now()
    world.tracker.chunk = 50
    world.tracker.rows = [Row(n, now - 400 + n, 2.0, 10.0) for n in range(300)]
    world.tracker.rows[120] = Row(120, now - 280, float("nan"), 10.0)
    world.tracker.rows[121:] = world.tracker.rows[121:180]
    async with watching(world) as engine:
        await until(lambda: [alert.id for alert in run_of(engine).alerts] == ["C-09"])
        assert "step 120" in run_of(engine).alerts[0].title
        await until(lambda: world.tracker.read == len(world.tracker.rows))


def jobs_told(world: World, facet: str) -> list[str]:
    given = [each[0] for each in world.fakes[facet].given]
    return [query.job.id for query in given if query.job is not None]


async def test_facets_tell_each_other_what_they_need() -> None:
    world = World(cadence=4.0)
    world.tracker.value = tracker_value(world.clock.now(), exit_code=3)
    world.fakes["checkpoints"].value = checkpoints(1)
    async with watching(world):
        await until(lambda: 3 in [each[0].exit_record for each in world.fakes["job"].given])
        for facet in ("checkpoints", "log", "tracker"):
            await until(lambda: "pid:1" in jobs_told(world, facet))  # noqa: B023 - awaited at once
            assert world.fakes[facet].given[-1][0].alive


async def test_a_failed_job_s_log_is_triaged() -> None:
    world = World(cadence=4.0)
    world.fakes["job"].value = failed(world.clock.now())
    lines = (
        "Traceback (most recent call last):",
        '  File "/home/ada/launch/train.py", line 3, in <module>',
        "    import jx",
        "ModuleNotFoundError: No module named 'jx'",
    )
    world.fakes["log"].value = log_value(world.clock.now(), *lines)
    async with watching(world) as engine:
        await until(lambda: run_of(engine).alerts)
        log = run_of(engine).facets.log.value
    assert log is not None and log.triage is not None
    assert log.triage.name == "small_code_bug"


def triaged(engine: Engine) -> Triage | None:
    log = run_of(engine).facets.log.value
    return None if log is None else log.triage


async def test_why_it_ended_is_kept_while_its_log_cannot_be_read() -> None:
    world = World(cadence=4.0)
    log = world.fakes["log"]
    world.fakes["job"].value = failed(world.clock.now())
    log.value = log_value(world.clock.now(), "ModuleNotFoundError: No module named 'jx'")
    async with watching(world) as engine:
        await until(lambda: triaged(engine))
        found = triaged(engine)
        name = world.file.runs[0].name
        log.answers[name] = unknown(ErrorKind.TIMEOUT, "no answer", "x", world.clock.now())
        await until(lambda: kind_of(engine, "log") is ErrorKind.TIMEOUT)
        rounds = len(world.fakes["job"].asked) + 3
        await until(lambda: len(world.fakes["job"].asked) > rounds)
        assert found is not None and triaged(engine) == found
        world.fakes["job"].value = running(world.clock.now())
        await until(lambda: triaged(engine) is None)


async def test_a_fault_in_a_source_is_an_unknown_facet_and_one_notice(tmp_path: Path) -> None:
    world = World(cadence=4.0)
    world.fakes["code"].raising = KeyError("sha")
    async with watching(world) as engine:
        await until(lambda: kind_of(engine, "code") is ErrorKind.BAD_ANSWER)
        await until(lambda: len(world.fakes["code"].asked) >= 3)
        assert run_of(engine).facets.job.known
        assert len(engine.notices) == 1
    assert "KeyError" in engine.notices[0]


async def test_a_store_that_cannot_be_written_costs_the_history_only(store: Store) -> None:
    world = World(cadence=4.0)
    store.close()
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
        await until(lambda: engine.notices)
    assert "without history" in engine.notices[0]


async def test_every_cadence_has_its_round_though_nothing_changed(store: Store) -> None:
    world = World(cadence=2.0)
    rounds: list[RunReport] = []
    async with watching(world, store) as engine:
        engine.on_round(rounds.append)
        await until(lambda: len(rounds) >= 5)
    gaps = [b.checked_at - a.checked_at for a, b in itertools.pairwise(rounds[1:])]
    assert all(1.0 < gap < 4.0 for gap in gaps)
    assert all(each.next_check_at is not None for each in rounds)
    assert len(RunMemory(store).observations(run_key(world.file.path, "r"))) >= 3


async def test_the_bulk_stays_a_bulk_with_many_runs() -> None:
    names = [f"run-{number:03}" for number in range(200)]
    world = World(*names, speed=1.0, cadence=60.0)
    async with watching(world) as engine:
        await until(lambda: all(run.verdict is Verdict.HEALTHY for run in engine.report().runs))
        tasks = len(asyncio.all_tasks())
    assert len(world.fakes["host"].asked) <= 4
    assert tasks < 60


async def test_leaving_takes_no_time_though_a_source_hangs() -> None:
    world = World(speed=1.0)
    world.fakes["host"].hanging = {"r"}
    loop = asyncio.get_running_loop()
    async with watching(world) as engine:
        await until(lambda: run_of(engine).facets.job.known)
        began = loop.time()
    assert loop.time() - began < 0.5


async def test_what_was_known_stands_until_the_first_look_and_opens_nothing(store: Store) -> None:
    world = World(cadence=4.0)
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
    world.tracker.hanging = {"r"}
    told: list[RunReport] = []
    again = Engine(world.file, store=store, clock=world.clock, sources=world.sources)
    again.subscribe(told.append)
    loop = asyncio.create_task(again.run())
    try:
        await until(lambda: told)
        assert told[0].facets.tracker.value is not None
        assert told[0].progress.text == "~5/1000"
        await until(lambda: len(world.fakes["job"].asked) >= 2)
        assert not any(report.alerts for report in told)
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


async def test_a_log_without_a_tracker_feeds_the_rules() -> None:
    world = World(cadence=4.0)
    now = world.clock.now()
    world.tracker.value = None
    world.fakes["job"].value = running(now - 60)
    rows = tuple(Row(n, now - 50 + n, 2.0) for n in range(50))
    world.fakes["log"].value = log_value(now, "step 49").model_copy(update={"rows": rows})
    async with watching(world) as engine:
        await until(lambda: run_of(engine).progress.text == "~49/1000")
        assert run_of(engine).progress.eta_s is not None


async def test_while_rows_are_still_read_the_first_broken_step_is_only_the_latest() -> None:
    world = World(speed=2.0)
    world.tracker.chunk = 400
    now = world.clock.now()
    last = 6000
    world.tracker.rows = [
        Row(step, now - last + step, 2.5 if step < 130 else float("nan")) for step in range(last)
    ]
    newest = tracker_value(now, step=last - 1, loss=float("nan"))
    world.tracker.value = newest
    titles: list[str] = []
    async with watching(world) as engine:
        engine.subscribe(lambda run: titles.extend(each.title for each in run.alerts))
        await until(lambda: "Loss is NaN at step 130" in titles)
    said = {title for title in titles if "NaN" in title} - {"Loss is NaN at step 130"}
    assert all("at or before step" in title for title in said), said
