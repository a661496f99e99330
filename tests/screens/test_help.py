"""The help screen: ``/`` filters it, esc shows everything again, then closes it."""

from __future__ import annotations

from tests.screens.acting.stand_in_service import StandInService
from tests.screens.stand_in import cockpit, text_of


async def test_the_help_is_filtered_by_words_and_left_by_esc() -> None:
    app = cockpit(service=StandInService())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("?", "/", *"acknowzz")
        assert "no match" in text_of(app)
        await pilot.press("backspace", "backspace", "enter")
        shown = text_of(app)
        assert "acknowledge" in shown and "log entry" not in shown
        await pilot.press("escape")
        assert app.screen.is_modal and "log entry" in text_of(app)
        await pilot.press("escape")
        assert not app.screen.is_modal
