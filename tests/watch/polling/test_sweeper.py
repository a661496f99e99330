"""The sweep's thread: what it tells the event loop of, and what it never does to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from cockpit.model.report import Facets
from cockpit.model.run import CockpitFile, JobSpec, RunSpec
from cockpit.watch import sweep
from cockpit.watch.engine import Engine
from cockpit.watch.runstate import RunState
from cockpit.watch.sweep import DEADLINE, Sweeper, watched_paths
from tests.watch.fakes import SteppedClock, until


class Stood(SteppedClock):
    """Time that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.2

    def pass_by(self, seconds: float) -> None:
        self._at += seconds


class Place:
    """One run with a log, its sweeper, and what that has woken."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        run = RunSpec(name="a", job=JobSpec(kind="local", log=str(self.log)))
        state = RunState(spec=run, key="a")
        state.paths = watched_paths(state.spec, state.facets)
        self.states = {"a": state}
        self.clock = Stood()
        self.woken: list[tuple[str, str]] = []
        self.sweeper = Sweeper(self.look, lambda _: 0, self.wake, self.clock)

    def look(self) -> dict[str, RunState]:
        return self.states

    def wake(self, facet: str, name: str) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.woken.append((facet, name))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def sweeping(place: Place) -> Iterator[None]:
    place.sweeper.start()
    try:
        yield
    finally:
        place.sweeper.stop()


def test_a_sweep_tells_what_has_changed_since_the_last_and_else_nothing(place: Place) -> None:
    assert [place.sweeper.once() for _ in range(3)] == [[], [], []]
    place.log.write_text("a line\n")
    assert [place.sweeper.once() for _ in range(2)] == [[("a", "log")], []]


def test_of_a_run_that_has_left_the_file_nothing_is_kept(place: Place) -> None:
    place.sweeper.once()
    assert place.sweeper._seen
    place.states = {}
    assert place.sweeper.once() == [] and not place.sweeper._seen


def test_of_processes_that_are_gone_no_file_is_kept_open_for_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = Mock()
    monkeypatch.setattr(sweep, "LET_GO", 2)
    monkeypatch.setattr(place.sweeper._processes, "let_go", let_go)
    for _ in range(5):
        place.sweeper.once()
    assert let_go.call_count == 2


async def test_the_loop_is_woken_by_a_change_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[int] = []
    calls: list[object] = []
    loop, once = asyncio.get_running_loop(), place.sweeper.once
    ring = loop.call_soon_threadsafe

    def counted() -> list[tuple[str, str]]:
        sweeps.append(1)
        return once()

    def rung(callback: Callable[..., None], *arguments: object) -> asyncio.Handle:
        calls.append(callback)
        return ring(callback, *arguments)

    monkeypatch.setattr(place.sweeper, "once", counted)
    monkeypatch.setattr(loop, "call_soon_threadsafe", rung)
    with sweeping(place):
        await until(lambda: len(sweeps) >= 3)
        assert calls == []
        place.log.write_text("a line\n")
        await until(lambda: place.woken)
    assert (place.woken, len(calls)) == ([("log", "a")], 1)


async def test_a_sweep_that_hangs_is_late_and_holds_nobody_up(place: Place) -> None:
    hung, goes_on = threading.Event(), threading.Event()

    def states() -> dict[str, RunState]:
        hung.set()
        goes_on.wait()
        return place.states

    place.sweeper = Sweeper(states, lambda _: 0, place.wake, place.clock)
    with sweeping(place):
        await until(hung.is_set)
        assert not place.sweeper.late()
        place.clock.pass_by(DEADLINE + 1)
        assert place.sweeper.late()
        goes_on.set()
        await until(lambda: not place.sweeper.late())


async def test_a_fault_of_the_sweep_is_raised_where_it_is_asked_for(place: Place) -> None:
    def states() -> dict[str, RunState]:
        raise RuntimeError("a fault")

    place.sweeper = Sweeper(states, lambda _: 0, place.wake, place.clock)
    with sweeping(place):
        await until(lambda: place.sweeper._fault)
    with pytest.raises(RuntimeError, match="a fault"):
        place.sweeper.late()


def test_a_sweep_while_an_edited_run_file_is_taken_over_misses_no_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = place.states["a"].spec, RunSpec(name="b")
    file = CockpitFile(path=str(place.log.parent / "cockpit.toml"), runs=runs)
    engine = Engine(file, store=None, clock=place.clock)
    sweep = engine._maintenance._sweeper
    told = sweep.once()

    def swept_meanwhile(run: RunSpec, facets: Facets) -> dict[str, tuple[str, ...]]:
        place.log.write_text("a line\n")
        told.extend(sweep.once())
        return watched_paths(run, facets)

    monkeypatch.setattr("cockpit.watch.fleet.watched_paths", swept_meanwhile)
    engine._fleet.adopt(file)
    assert told[:1] == [("a", "log")]
