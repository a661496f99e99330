"""A key waits for nothing that is not its own: neither for news, nor for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from cockpit.app import application
from cockpit.app import news as news_module
from cockpit.model.report import Verdict
from cockpit.runtime import heap
from cockpit.runtime.heap import DUE, OVERDUE, YOUNG, QuietHeap
from screens.fleet import FleetScreen
from tests.screens.stand_in import StandIn, cockpit, screen_of, text_of
from tests.widgets import reports as made


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
    monkeypatch.setattr(news_module, "WITHIN", 3600.0)
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
