import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.watch.poller import ALONE_AT_ONCE, FEW, SPACING, UNSEEN, Poller, back_off, cadence_of
from cockpit.watch.tasks import OTHER, UNWELL, VISIBLE, Supervisor
from tests.watch.fakes import Fake, FastClock, checkpoints, run_spec, until


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


async def test_runs_are_asked_together_at_their_cadence(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["a", "b"])
    async with bench.running():
        await until(lambda: len(bench.source.asked) >= 3)
    assert set(bench.source.asked) == {("a", "b")}


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


@pytest.mark.parametrize(
    ("rank", "soonest"), [(VISIBLE, SPACING), (UNWELL, SPACING), (OTHER, UNSEEN)]
)
def test_a_log_that_moves_all_the_time_is_read_less_often_where_nobody_sees_it(
    rank: int, soonest: float, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, [])
    bench.poller = Poller("log", bench.source.observe, bench.clock, bench._take,
                          Supervisor(bench.clock, tmp_path), lambda _: rank)  # fmt: skip
    bench.poller.assign([run_spec("a", cadence=3600.0), run_spec("b", cadence=4.0)])
    for slot in bench.poller._slots.values():
        slot.asked, slot.due = bench.clock.monotonic(), float("inf")
        bench.poller.wake(slot.run.name)
    waits = {name: slot.due - slot.asked for name, slot in bench.poller._slots.items()}
    assert waits == {"a": pytest.approx(soonest), "b": pytest.approx(min(soonest, 2.0))}


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


def test_cadences_follow_the_interface() -> None:
    slow, fast = run_spec("r", cadence=900.0), run_spec("r", cadence=5.0)
    usual = {facet: cadence_of(facet, slow) for facet in ("job", "tracker", "checkpoints", "host")}
    assert usual == {"job": 30.0, "tracker": 30.0, "checkpoints": 60.0, "host": 60.0}
    assert cadence_of("log", slow, swept=False) == 1.0
    assert cadence_of("checkpoints", fast) == 2.5


def test_back_off_grows_is_spread_and_ends() -> None:
    run = run_spec("r", cadence=900.0)
    waits = [back_off(30.0, failures, 0.5, run) for failures in range(1, 8)]
    assert waits == sorted(waits)
    assert waits[0] == 60.0
    assert waits[-1] == 300.0
    assert back_off(30.0, 1, 0.0, run) < 60.0 < back_off(30.0, 1, 0.999, run)
    assert back_off(2.5, 40, 0.5, run_spec("r", cadence=5.0)) == 5.0
