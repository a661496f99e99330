""""""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import Row
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.git import Unchanged
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import UnknownRunError
from tests.watch.fakes import Chunk, SteppedClock, World, checkpoints, failed, tracker_value
from tests.watch.remote import CLUSTER, Cluster, on_cluster, world_of


def engine_of(world: World, store: Store | None = None) -> Engine:
    return Engine(world.file, store=store, clock=world.clock, sources=world.sources)


@pytest.mark.parametrize("facet", ["tracker", "job", "log", "checkpoints", "code"])
async def test_a_hanging_facet_is_unknown_within_the_deadline(facet: str) -> None:
    world = World("a", "b", clock=SteppedClock())
    world.fakes["checkpoints"].value = checkpoints(3)
    world.fakes[facet].hanging = {"a"}
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    facets = {run.name: dict(run.facets.items()) for run in report.runs}
    error = facets["a"][facet].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT
    assert re.search(r"no answer within \d+(\.\d)? s$", error.message)
    assert all(facets["a"][name].known for name in {"tracker", "job", "log"} - {facet})
    assert all(facets["b"][name].known for name in ("tracker", "job", "log", "checkpoints"))


async def test_a_fault_over_one_run_costs_no_other_its_facet() -> None:
    world = World("a", "b")
    plain = world.fakes["log"].observe

    async def faulty(runs: Sequence[RunSpec]) -> dict[str, Facet[Any]]:
        if any(run.name == "a" for run in runs):
            raise RuntimeError("boom")
        found: dict[str, Facet[Any]] = await plain(runs)
        return found

    world.fakes["log"].observe = faulty
    report = await engine_of(world).check()
    assert [run.facets.log.known for run in report.runs] == [False, True]


async def test_an_empty_store_is_judged_from_all_rows() -> None:
    world = World()
    now = world.clock.now()
    rows = [Row(n, now - 400 + n, 2.0, 10.0) for n in range(200)]
    rows[150] = Row(150, now - 250, float("nan"), 10.0)
    world.tracker.rows, world.tracker.chunk = rows, 20
    report = await engine_of(world).check()
    assert [alert.id for alert in report.runs[0].alerts] == ["C-09"]
    assert world.tracker.read == 200


async def test_more_rows_than_there_is_time_for_are_judged_by_the_recent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(clock=SteppedClock(speed=8.0))
    now = world.clock.now()
    world.tracker.value = tracker_value(now, step=59_999)
    world.tracker.rows = [Row(n, now - 60_000 + n, 2.0, 10.0) for n in range(60_000)]
    plain = world.tracker.more_rows

    async def slow(run: RunSpec) -> Chunk:
        await world.clock.sleep(3.0)
        return await plain(run)

    monkeypatch.setattr(world.tracker, "more_rows", slow)
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    assert report.runs[0].verdict is Verdict.HEALTHY
    assert 0 < world.tracker.read < 60_000


async def test_checking_again_reads_only_what_is_new() -> None:
    world = World()
    now = world.clock.now()
    world.tracker.rows = [Row(n, now - 400 + n, 2.0) for n in range(100)]
    engine = engine_of(world)
    await engine.check()
    world.fakes["job"].value = failed(now)
    report = await engine.check()
    assert [alert.id for alert in report.runs[0].alerts] == ["C-01"]
    assert world.tracker.read == 100


async def test_check_keeps_to_the_runs_asked_for() -> None:
    world = World("a", "b")
    report = await engine_of(world).check(["b"])
    assert [run.name for run in report.runs] == ["b"]
    assert world.fakes["job"].asked == [("b",)]
    with pytest.raises(UnknownRunError, match="it has: a, b"):
        await engine_of(world).check(["c"])


async def test_a_check_takes_no_answer_that_git_gave_some_time_ago() -> None:
    world = World()
    plain, kept = world.fakes["code"].observe, Unchanged[int](world.clock)
    given: list[int] = []

    async def one_more() -> int:
        return len(given)

    async def observed(
        runs: Sequence[RunSpec], launched: Mapping[str, str]
    ) -> dict[str, Facet[Any]]:
        given.append(await kept.answer("code", lambda: (), one_more))
        found: dict[str, Facet[Any]] = await plain(runs)
        return found

    world.fakes["code"].observe = observed
    engine = engine_of(world)
    await engine.check()
    await engine.check()
    assert given == [0, 1]


async def test_check_writes_nothing_into_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    world = World()
    world.fakes["job"].value = failed(world.clock.now())
    report = await engine_of(world, store).check()
    assert report.runs[0].alerts
    await asyncio.sleep(0)
    with store.reading() as connection:
        for table in ("alerts", "phases", "reports", "observations"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0


async def test_a_place_away_is_asked_once_and_its_hang_is_the_fate_of_all_its_runs() -> None:
    names = tuple(f"run-{number:03}" for number in range(200))
    cluster = Cluster(SteppedClock())
    world = world_of(cluster, [on_cluster(name) for name in names])
    cluster.hangs = True
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    assert [cluster.requests(facet) for facet in ("job", "log", "host")] == [[names]] * 3
    errors = [run.facets.job.error for run in report.runs]
    assert all(error is not None and error.kind is ErrorKind.TIMEOUT for error in errors)
    assert all(error is not None and CLUSTER in error.message for error in errors)


async def test_a_tracker_away_is_asked_once_though_it_had_rows() -> None:
    world = World("a", "b")
    online = [
        run.model_copy(update={"wandb": WandbSpec(project="p", id=run.name)})
        for run in world.file.runs
    ]
    world.tracker.rows = [Row(1, world.clock.now(), 2.0)]
    await engine_of(world).check()
    assert world.tracker.asked == [("a", "b"), ("a",)]
    world.tracker.asked, world.tracker.read = [], 0
    world.file = world.file.model_copy(update={"runs": tuple(online)})
    await engine_of(world).check()
    assert world.tracker.asked == [("a", "b")]


async def test_a_log_that_is_found_by_its_job_is_asked_for_after_it() -> None:
    cluster = Cluster(SteppedClock())
    world = world_of(cluster, [on_cluster("a"), on_cluster("b")])
    report = await engine_of(world).check()
    assert all(run.facets.log.known for run in report.runs)
    assert [query.job is not None and query.job.id for query in cluster.given[0]] == ["pid:1"] * 2
