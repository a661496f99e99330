from __future__ import annotations

import pytest
from textual import events
from textual.app import App, ComposeResult

from screens.dialog import TextLine


class OneLine(App[None]):
    def compose(self) -> ComposeResult:
        yield TextLine("abc")


@pytest.mark.parametrize(("selects", "left"), [(False, "abcx31my"), (True, "x31my")])
async def test_no_control_character_is_pasted_behind_or_over_what_stands_there(
    selects: bool, left: str
) -> None:
    app = OneLine()
    async with app.run_test() as pilot:
        line = app.query_one(TextLine)
        line.focus()
        if selects:
            await pilot.press("shift+home")
        await pilot.pause()
        assert line.selection.is_empty is not selects
        line.post_message(events.Paste("x\x9b31m\u202ey"))
        await pilot.pause()
        assert line.value == left
