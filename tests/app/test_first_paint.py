"""The first paint, and reports that are gathered into one repaint behind what is pressed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from textual._callback import invoke

from cockpit.app import application, first_paint
from cockpit.app.first_paint import GATHER_FOR, READING, FirstPaint, News
from cockpit.model.report import ROWS_UNREAD, Verdict
from cockpit.runtime import heap
from cockpit.runtime.heap import DUE, OVERDUE, YOUNG, QuietHeap
from screens.fleet import FleetScreen
from tests.screens.stand_in import StandIn, cockpit, screen_of, text_of
from tests.widgets import reports as made

UNREAD: dict[str, Any] = {"verdict": Verdict.UNKNOWN, "not_read_yet": "job, log: not asked"}


class Timers:
    """Keeps the timers that run, and what each calls."""

    def __init__(self) -> None:
        self.running: list[tuple[float, Callable[[], object]]] = []

    def set_timer(self, seconds: float, call: Callable[[], object]) -> SimpleNamespace:
        timer = (seconds, call)
        self.running.append(timer)
        return SimpleNamespace(stop=lambda: self.running.remove(timer))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def news(timers: Timers, told: list[str]) -> News:
    found = News(timers, lambda: None, lambda: told.append("read"))  # type: ignore[arg-type]
    found.begin([made.report("run-a", **UNREAD), made.report("run-b", **UNREAD)])
    del timers.running[:]
    return found


async def test_a_run_that_nobody_can_read_keeps_the_others_waiting_only_at_first(
    timers: Timers,
) -> None:
    news = News(timers, lambda: None, lambda: None)  # type: ignore[arg-type]
    news.begin([made.report("run-a", **UNREAD), made.report("run-b")])
    ((_, begun),) = timers.running
    await invoke(begun)  # as a timer calls it
    del timers.running[:]
    news.taken([made.report("run-a", **UNREAD), made.report("run-b")])  # as at each look at ages
    news.take(made.report("run-a", **UNREAD))
    assert [seconds for seconds, _ in timers.running] == [GATHER_FOR]
    news.taken()
    news.take(made.report("run-b"))
    assert [seconds for seconds, _ in timers.running] == [GATHER_FOR]


def test_the_last_run_read_and_a_critical_one_are_worth_showing(
    news: News, told: list[str]
) -> None:
    news.take(made.report("run-a", **UNREAD | {"verdict": Verdict.CRITICAL}))
    assert not told, "that is what was known the last time"
    news.take(made.report("run-a"))
    assert not told
    news.take(made.report("run-a", verdict=Verdict.CRITICAL))
    assert told == ["read"]
    news.take(made.report("run-a"))
    news.take(made.report("run-b"))
    assert told == ["read", "read"]


def test_a_run_that_is_critical_whatever_its_rows_say_is_worth_showing(
    news: News, timers: Timers, told: list[str]
) -> None:
    rows: dict[str, Any] = {"not_read_yet": ROWS_UNREAD}
    news.take(made.report("run-a", verdict=Verdict.UNKNOWN, **rows))
    assert not told
    news.take(made.report("run-a", verdict=Verdict.CRITICAL, **rows))
    assert told == ["read"]
    assert [seconds for seconds, _ in timers.running] == [READING], "others are still being read"


class Kept:
    """What a first paint needs of an app, with a kept frame on its terminal or without."""

    def __init__(self, *, kept: bool) -> None:
        self.cells = SimpleNamespace(kept=kept)
        self.laid_out, self.live_wanted = asyncio.Event(), asyncio.Event()
        self.screen_stack: list[Any] = []
        self.screen = SimpleNamespace(call_after_refresh=lambda call: call())
        self.paints: list[str] = []
        self.first: FirstPaint | None = None
        self.laid_out.set()

    def catch_up(self) -> None:
        self.paints.append("all")


async def begun(app: Kept) -> asyncio.Event:
    """Begin to paint; return once what is remembered was shown to the screen."""
    shown, remembered = asyncio.Event(), asyncio.Event()
    app.first = FirstPaint(app, shown)  # type: ignore[arg-type]
    app.first.wait(None, remembered.set)
    await remembered.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    return shown


@pytest.mark.parametrize("kept", [False, True])
async def test_a_layout_that_comes_late_keeps_no_engine_from_its_start(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_paint, "PAINT_WITHIN", 0.0)
    app = Kept(kept=kept)
    app.laid_out.clear()
    shown = asyncio.Event()
    app.first = FirstPaint(app, shown)  # type: ignore[arg-type]
    app.first.wait(None, lambda: None)
    await asyncio.wait_for(app.laid_out.wait(), 20)
    assert shown.is_set() is not kept
    app.live_wanted.set()
    await asyncio.wait_for(shown.wait(), 20)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected, as since the beginning of a start."""
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("uncollected")
async def test_garbage_is_collected_again_also_after_a_first_paint_that_fails() -> None:
    app = Kept(kept=False)
    app.catch_up = fail  # type: ignore[method-assign]
    first = FirstPaint(app, asyncio.Event())  # type: ignore[arg-type]
    first.wait(None, lambda: None)
    assert first._task is not None
    with pytest.raises(ZeroDivisionError):
        await first._task
    assert gc.isenabled()


def fail() -> None:
    raise ZeroDivisionError


class Knot:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def own_thresholds() -> Iterator[None]:
    former = gc.get_threshold()
    yield
    gc.set_threshold(*former)


async def test_garbage_is_collected_again_once_something_is_seen() -> None:
    gc.disable()  # as a start does
    try:
        async with cockpit(made.report("run-a")).run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert gc.isenabled()
    finally:
        gc.enable()


async def test_a_key_paints_no_news_and_the_news_come_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_paint, "GATHER_FOR", 3600.0)
    monkeypatch.setattr(application, "AGES", 3600.0)
    monkeypatch.setattr(application, "SOON", ())
    engine = StandIn(made.report("run-a"), made.report("run-b"), made.report("run-c"))
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        news = made.report("run-c", alerts=(made.alert("C-05"),), verdict=Verdict.ATTENTION)
        engine.tell(news)
        before = app.reports
        await pilot.press("j")
        assert screen_of(app, FleetScreen).selected == "run-c"  # it stands below the first
        assert app.reports == before and news.alerts[0].title not in text_of(app)
        app.show_news()
        await pilot.pause()
        assert app.reports[2] is news and news.alerts[0].title in text_of(app)
        assert screen_of(app, FleetScreen).selected == "run-c"


@pytest.mark.usefixtures("own_thresholds")
async def test_nothing_is_collected_while_keys_come_but_soon_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former, hour = gc.get_threshold(), 3600.0
    monkeypatch.setattr(heap, "QUIET", hour)
    app = cockpit(made.report("run-a"), made.report("run-b"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert gc.get_threshold() == YOUNG
        await pilot.press("j")
        gc.collect()
        knot = weakref.ref(_old())
        app._in_time()
        assert knot() is not None
        app._typeahead._pressed_at -= hour
        app._in_time()
        assert knot() is None
    assert gc.get_threshold() == former


def _old() -> Knot:
    """Return a knot that the middle generation has passed on."""
    knot = Knot()
    for _ in range(DUE):
        gc.collect(1)
    return knot


@pytest.mark.usefixtures("own_thresholds")
def test_keys_without_a_pause_do_not_put_it_off_for_ever() -> None:
    quiet = QuietHeap()
    quiet.begin()
    gc.collect()
    looks = []
    for _ in range(OVERDUE):
        looks.append(quiet.look(idle=0.1))
        gc.collect(1)
    assert not any(looks) and quiet.look(idle=0.1) and not quiet.look(idle=3600.0)
    quiet.end()
