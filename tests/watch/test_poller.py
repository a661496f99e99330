"""Pollers: each run at its cadence, one fate per place, who goes first."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.observed import JobValue
from cockpit.model.run import CheckpointSpec, JobSpec
from cockpit.sources.checkpoints.source import Checkpoints
from cockpit.watch.engine import Engine
from cockpit.watch.poller import ALONE_AT_ONCE, BEAT, FEW, AwayPoller, Backoff, Poller, back_off
from cockpit.watch.sweep import OTHER, UNWELL, VISIBLE, Supervisor, Turns
from tests.sources.checkpoints.trees import levanter
from tests.watch.fakes import Fake, FastClock, SteppedClock, World, checkpoints, run_spec, until
from tests.watch.remote import CLUSTER, Cluster, on_cluster, world_of


class Bench:
    """One poller, what it was asked and what it delivered."""

    def __init__(self, folder: Path, names: list[str], speed: float = 20.0) -> None:
        self.clock = FastClock(speed)
        self.source = Fake(self.clock, checkpoints(1))
        self.got: dict[str, Facet[Any]] = {}
        supervisor = Supervisor(self.clock, folder)
        self.poller = Poller("host", self.source.observe, self.clock, self._take, supervisor)
        self.runs = [run_spec(name, cadence=4.0) for name in names]
        self.poller.assign(self.runs)

    def _take(self, facet: str, answers: Mapping[str, Facet[Any]]) -> None:
        assert facet == "host"
        self.got.update(answers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.poller.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_a_wake_asks_soon_and_many_wakes_ask_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a"], speed=5.0)
    bench.poller.assign([run_spec("a", cadence=3600.0)])
    async with bench.running():
        await until(lambda: bench.got)
        for _ in range(50):
            bench.poller.wake("a")
        await until(lambda: len(bench.source.asked) >= 2)
        bench.poller.wake("nobody")
        await asyncio.sleep(0)
    assert len(bench.source.asked) == 2


async def test_a_wake_during_a_request_asks_again_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a"])
    bench.poller.assign([run_spec("a", cadence=3600.0)])
    asking, answered = asyncio.Event(), asyncio.Event()
    plain = bench.source.observe

    async def slow(runs: Any) -> dict[str, Facet[Any]]:
        asking.set()
        await answered.wait()
        return await plain(runs)

    bench.poller._ask = slow
    async with bench.running():
        await asking.wait()
        bench.poller.wake("a")
        answered.set()
        await until(lambda: len(bench.source.asked) >= 2)


async def test_more_hanging_runs_than_may_be_asked_at_once_do_not_spin(tmp_path: Path) -> None:
    names = [f"bad{number}" for number in range(ALONE_AT_ONCE + 3)]
    bench = Bench(tmp_path, [*names, "good"])
    bench.source.hanging = set(names)
    async with bench.running():
        await until(lambda: "good" in bench.got)
        await until(lambda: all(name in bench.got for name in names))
    assert all(bench.got[name].error is not None for name in names)
    assert len(bench.source.asked) < 60


async def test_a_bulk_that_a_busy_machine_is_late_with_is_asked_again_a_few_together(
    tmp_path: Path,
) -> None:
    names = [f"r{number:02d}" for number in range(5 * FEW)]
    bench = Bench(tmp_path, names)
    plain = bench.source.observe

    async def slow(runs: Any) -> dict[str, Facet[Any]]:
        if len(runs) > FEW:
            bench.source.asked.append(tuple(run.name for run in runs))
            await asyncio.sleep(3600.0)
        return await plain(runs)

    bench.poller._ask = slow
    async with bench.running():
        await until(lambda: len(bench.got) == len(names))
    again = bench.source.asked[1:6]
    assert [name for group in again for name in group] == names
    assert {len(group) for group in again} == {FEW}
    assert all(bench.got[name].error is None for name in names)


async def test_a_run_that_answers_again_rejoins_the_bulk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a", "b"])
    bench.source.hanging = {"b"}
    async with bench.running():
        await until(lambda: "b" in bench.got)
        bench.source.hanging = set()
        seen = len(bench.source.asked)
        await until(lambda: ("a", "b") in bench.source.asked[seen:])


async def test_a_run_whose_source_gave_it_up_is_asked_apart(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a", "b"])
    bench.source.answers["b"] = unknown(ErrorKind.TIMEOUT, "no answer", "b", 0.0)
    async with bench.running():
        await until(lambda: ("b",) in bench.source.asked)
        await until(lambda: ("a",) in bench.source.asked)
        del bench.source.answers["b"]
        seen = len(bench.source.asked)
        await until(lambda: ("a", "b") in bench.source.asked[seen:])


async def test_a_removed_run_is_asked_no_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a", "b"])
    async with bench.running():
        await until(lambda: bench.got)
        bench.poller.assign(bench.runs[:1])
        seen = len(bench.source.asked)
        await until(lambda: len(bench.source.asked) >= seen + 3)
    assert set(bench.source.asked[seen + 1 :]) == {("a",)}


def assert_details(folder: Path) -> None:
    (details,) = folder.glob("*.txt")
    assert details.stat().st_mode & 0o077 == 0
    assert "boom" in details.read_text()


async def test_a_fault_in_a_source_does_not_end_the_poller(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a"])
    bench.source.raising = ValueError("boom")
    async with bench.running():
        await until(lambda: "a" in bench.got)
        problem = bench.got["a"].error
        bench.source.raising = None
        await until(lambda: bench.got["a"].known)
    assert problem is not None and problem.kind is ErrorKind.BAD_ANSWER
    assert_details(tmp_path)


def test_back_off_grows_is_spread_and_ends() -> None:
    run = run_spec("r", cadence=900.0)
    waits = [back_off(30.0, failures, 0.5, run) for failures in range(1, 8)]
    assert waits == sorted(waits)
    assert waits[0] == 60.0
    assert waits[-1] == 300.0
    assert back_off(30.0, 1, 0.0, run) < 60.0 < back_off(30.0, 1, 0.999, run)
    assert back_off(2.5, 40, 0.5, run_spec("r", cadence=5.0)) == 5.0


NAMES = tuple(f"run-{number:03}" for number in range(200))
JOB_DEADLINE = 20.0
LONGEST_BACK_OFF = 60.0
"""For runs of a cadence of one minute."""
LATE = 0.99
"""Sums of floats are not exact."""
THREE = ("a", "b", "c")


def fleet(names: tuple[str, ...], speed: float) -> tuple[Cluster, World]:
    cluster = Cluster(SteppedClock(speed))
    return cluster, world_of(cluster, [on_cluster(name) for name in names])


@asynccontextmanager
async def watching(world: World) -> AsyncIterator[Engine]:
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    loop = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def jobs(engine: Engine) -> list[Facet[JobValue]]:
    return [run.facets.job for run in engine.report().runs]


async def test_two_hundred_runs_are_one_request_per_cadence() -> None:
    cluster, world = fleet(NAMES, speed=200.0)
    async with watching(world) as engine:
        await until(lambda: len(cluster.requests("job")) >= 4)
        await until(lambda: len(cluster.requests("log")) >= 4)
        await until(lambda: all(job.known for job in jobs(engine)))  # judged after it is asked
    for facet, cadence in (("job", 30.0), ("log", 15.0), ("host", 60.0)):
        assert all(names == NAMES for names in cluster.requests(facet))
        times = cluster.times(facet)
        assert all(at >= LATE * number * cadence for number, at in enumerate(times))


async def test_a_hung_place_is_one_request_per_back_off_and_heals_in_one_bulk() -> None:
    cluster = Cluster(SteppedClock(100.0))
    world = world_of(cluster, [on_cluster(name, cadence=60.0) for name in NAMES])
    cluster.hangs = True
    async with watching(world) as engine:
        await until(lambda: len(cluster.requests("job")) >= 4)
        times = cluster.times("job")
        await until(lambda: all(job.error is not None for job in jobs(engine)))
        errors = [job.error for job in jobs(engine)]
        assert all(error is not None and error.kind is ErrorKind.TIMEOUT for error in errors)
        said = {error.message for error in errors if error is not None}
        assert said == {f"job at {CLUSTER}: no answer within {JOB_DEADLINE:g} s"}
        cluster.hangs = False
        await until(lambda: all(job.known for job in jobs(engine)))
    assert all(names == NAMES for names in cluster.requests("job"))
    least = LATE * (JOB_DEADLINE + 0.8 * LONGEST_BACK_OFF)
    assert all(at >= least * number for number, at in enumerate(times))


async def test_a_refused_bulk_stays_a_bulk_and_only_a_person_hurries_it() -> None:
    cluster, world = fleet(THREE, speed=200.0)
    cluster.answer = lambda facet: unknown(ErrorKind.REFUSED, "no", "cluster", cluster.clock.now())
    async with watching(world) as engine:
        await until(lambda: cluster.requests("job"))
        await engine.poke("b", "job")
        await until(lambda: len(cluster.requests("job")) >= 3)
    assert all(names == THREE for names in cluster.requests("job"))
    assert cluster.times("job")[2] >= LATE * 0.8 * 120.0


async def test_what_a_place_asks_for_holds_for_all_its_facets() -> None:
    cluster, world = fleet(THREE, speed=200.0)
    limited = unknown(ErrorKind.RATE_LIMITED, "too many requests", "cluster", 0.0)
    limited = limited.model_copy(update={"retry_after": 500.0})
    cluster.answer = lambda facet: limited
    async with watching(world) as engine:
        await until(lambda: {"job", "log", "host"} <= {facet for facet, _, _ in cluster.asked})
        await engine.poke("a")
        cluster.answer = None
        facets = ("job", "log", "host")
        assert [len(cluster.requests(facet)) for facet in facets] == [1, 1, 1]
        await until(lambda: all(len(cluster.times(facet)) >= 2 for facet in facets))
        await until(lambda: all(job.known for job in jobs(engine)))
    assert all(cluster.times(facet)[1] >= LATE * 500.0 for facet in facets)


async def test_a_hung_place_costs_the_runs_of_another_nothing(tmp_path: Path) -> None:
    cluster, world = fleet(THREE, speed=20.0)
    (tmp_path / "log").write_text("step 1/1000 loss=2.5\n")
    job = JobSpec(kind="local", log=str(tmp_path / "log"))
    here = run_spec("here").model_copy(update={"job": job})
    world.file = world.file.model_copy(update={"runs": (*world.file.runs, here)})
    cluster.hangs = True
    async with watching(world) as engine:
        await until(lambda: engine.report().runs[-1].facets.log.known)
        assert not any(run.facets.log.known for run in engine.report().runs[:-1])
    assert all(names == THREE for _, _, names in cluster.asked)


async def test_a_run_that_comes_is_asked_for_with_the_others_and_one_that_goes_is_not(
    tmp_path: Path,
) -> None:
    clock = SteppedClock(200.0)
    source = Fake(clock, checkpoints(1))
    delivered: list[Mapping[str, Facet[Any]]] = []
    poller = AwayPoller(
        ("job", CLUSTER),
        source.observe,
        lambda run: 3600.0,
        clock,
        lambda facet, answers: delivered.append(answers),
        Supervisor(clock, tmp_path),
        Backoff(),
    )
    poller.assign([on_cluster(name) for name in THREE])
    loop = asyncio.create_task(poller.run())
    try:
        await until(lambda: len(delivered) == 1)
        poller.wake("a")
        poller.assign([on_cluster(name) for name in ("b", "c")])
        await asyncio.sleep(0.1)
        assert source.asked == [THREE]
        poller.assign([on_cluster(name) for name in ("b", "c", "d")])
        await until(lambda: len(delivered) == 2)
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop
    assert source.asked == [THREE, ("b", "c", "d")]


async def test_a_root_that_is_not_listed_leaves_the_others_to_be_seen(tmp_path: Path) -> None:
    levanter(tmp_path, 900)
    world = World("both", "alone", cadence=4.0)
    roots = {"both": (str(tmp_path), "hdfs://host/x"), "alone": (str(tmp_path),)}
    runs = [
        run.model_copy(update={"checkpoints": CheckpointSpec(path=roots[run.name])})
        for run in world.file.runs
    ]
    world.file = world.file.model_copy(update={"runs": tuple(runs)})
    source = Checkpoints(world.clock)
    world.sources = dataclasses.replace(world.sources, checkpoints=source)
    async with watching(world) as engine:
        await until(lambda: all(run.facets.checkpoints.value for run in engine.report().runs))
        await until(
            lambda: "cannot be read" in str(engine.report().runs[0].facets.checkpoints.error)
        )
        both, alone = (run.facets.checkpoints for run in engine.report().runs)
    assert both.value is not None and alone.value is not None and both.error is not None
    assert both.error.kind is ErrorKind.UNSUPPORTED
    assert both.error.message.startswith("hdfs://host/x: ")
    assert [item.step for item in both.value.items] == [900]
    assert (both.value.latest_complete, both.value.relaunch_from) == (None, None)
    assert both.value.unlisted == ("hdfs://host/x",)
    assert alone.known and alone.value.latest_complete == 900


async def test_a_log_that_only_the_job_tells_of_is_asked_for_once_the_job_is_known() -> None:
    cluster, world = fleet(THREE, speed=200.0)
    bare = [
        run.model_copy(update={"job": run.job.model_copy(update={"log": None})})
        for run in world.file.runs
        if run.job is not None
    ]
    world.file = world.file.model_copy(update={"runs": tuple(bare)})
    async with watching(world):
        await until(lambda: len(cluster.requests("log")) >= 4)
    first, second, _, fourth, *_ = cluster.times("log")
    assert second - first < 10.0, "hurried, the usual cadence is 15 s"
    assert fourth >= 25.0, "the job tells the same place: nothing hurries it any more"


async def test_what_cannot_be_reached_rests_for_all_that_share_its_fate(tmp_path: Path) -> None:
    clock, rest, pollers = SteppedClock(200.0), Backoff(), []
    sources = [Fake(clock, checkpoints(1)) for _ in range(2)]
    for source, project in zip(sources, ("p", "q"), strict=True):
        poller = AwayPoller(
            ("job", project),
            source.observe,
            lambda run: 100.0,
            clock,
            lambda facet, answers: None,
            Supervisor(clock, tmp_path),
            rest,
        )
        pollers.append(poller)
    gone = unknown(ErrorKind.REFUSED, "no", "w", 0.0)
    sources[0].answers["a"] = gone
    loops = []
    try:
        for poller in pollers:
            poller.assign([on_cluster("a", cadence=900.0)])
            loops.append(asyncio.create_task(poller.run()))
            await until(lambda: sources[0].asked)
        await asyncio.sleep(0.05)
        assert sources[1].asked == [] and clock.monotonic() < rest.refused_until
        assert rest.refused_until >= 0.8 * 200.0
        pollers[1].wake("a", at_once=True)  # a person looks all the same
        await until(lambda: sources[1].asked)
    finally:
        for loop in loops:
            loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await loop


def test_those_on_a_screen_are_looked_at_each_time_and_the_others_by_turns() -> None:
    ranks = {"seen": VISIBLE, "unwell": UNWELL}
    turns = Turns(lambda name: ranks.get(name, OTHER), few=2)
    names = ["a", "seen", "b", "c", "unwell", "d", "e"]
    taken = [turns.take(names) for _ in range(5)]
    assert all({"seen", "unwell"} < set(each) and len(each) == 4 for each in taken)
    others = [name for each in taken for name in each if name not in ranks]
    assert others == ["a", "b", "c", "d", "e"] * 2, "none waits longer than the rest"


def test_what_a_place_is_asked_for_falls_on_the_same_moments() -> None:
    rest = Backoff(began=100.0)
    assert rest.beat(130.004, 30.0) == 130.0
    assert rest.beat(147.3, 30.0) == 100.0 + 9 * BEAT
    assert rest.beat(105.02, 5.0) == 105.0
    assert rest.beat(107.0, 7.0) == 107.0, "never much earlier or later than is meant"
    assert Backoff().beat(130.0, 30.0) == 130.0
