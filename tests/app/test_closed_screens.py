"""What was closed is not held: a window that is used for hours stays as large as it was."""

from __future__ import annotations

import gc
from collections import Counter

from textual._styles_cache import StylesCache
from textual.widget import Widget

from screens.run import RunScreen
from tests.screens.stand_in import cockpit
from tests.widgets import reports as made
from widgets.log_view import LogView

OPENED = 12


def held() -> Counter[str]:
    gc.collect()
    kinds = (StylesCache, Widget)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


async def test_a_closed_screen_leaves_nothing_that_was_painted() -> None:
    app = cockpit(*made.fleet())
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(OPENED):
            await pilot.press("enter", "2", "escape", "question_mark", "escape")
        after = held()
    assert after["RunScreen"] <= OPENED // 3, "timers hold the last ones for some seconds"
    painted = after.pop("StylesCache")
    assert painted <= after.total(), "what was painted outlives its widget"


async def test_an_empty_log_can_be_stepped_through() -> None:
    app = cockpit(*made.fleet())
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.press("enter", "1")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        view = screen.query_one(LogView)
        while view.held:
            view.held.pop()
        view.offsets.clear()
        view.wraps = True
        await pilot.press("j", "k", "pagedown", "g", "G", "j")
        assert app.is_running
