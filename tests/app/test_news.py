from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from textual._callback import invoke

from cockpit.app import first_paint
from cockpit.app.first_paint import FirstPaint
from cockpit.app.news import READING, WITHIN, News
from cockpit.model.report import ROWS_UNREAD, Verdict
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


def test_while_runs_are_read_their_parts_come_in_one_frame(news: News, timers: Timers) -> None:
    news.take(made.report("run-a", **UNREAD))
    news.take(made.report("run-a"))
    assert [seconds for seconds, _ in timers.running] == [READING]
    news.take(made.report("run-b"))
    assert [seconds for seconds, _ in timers.running] == [WITHIN]
    assert list(news.taken()) == ["run-a", "run-b"] and not timers.running
    news.take(made.report("run-b"))
    assert [seconds for seconds, _ in timers.running] == [WITHIN]


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
    assert [seconds for seconds, _ in timers.running] == [WITHIN]
    news.taken()
    news.take(made.report("run-b"))
    assert [seconds for seconds, _ in timers.running] == [WITHIN]


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


async def test_a_kept_frame_stands_until_there_is_more_to_see() -> None:
    app = Kept(kept=True)
    shown = await begun(app)
    assert not shown.is_set() and not app.paints
    app.live_wanted.set()
    await asyncio.wait_for(shown.wait(), 20)
    assert app.paints == ["all"]


async def test_without_one_the_screen_is_painted_at_once() -> None:
    app = Kept(kept=False)
    shown = await begun(app)
    await asyncio.wait_for(shown.wait(), 1)
    assert app.paints == ["all"]


@pytest.mark.parametrize("kept", [False, True])
async def test_a_layout_that_comes_late_keeps_no_engine_from_its_start(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_paint, "WITHIN", 0.0)
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
