"""The editor's comforts: a diff before the commit, templates, whole characters, long pastes."""

from __future__ import annotations

import time

import pytest
from textual import events
from textual.pilot import Pilot

from screens.acting.editor import EditorScreen
from screens.acting.entry_area import EntryArea
from screens.fleet import FleetScreen
from tests.screens.acting.test_editor import writing
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import text_of
from tests.screens.stand_in_books import ENTRY, StandInBooks


def area_of(pilot: Pilot[str]) -> EntryArea:
    return pilot.app.screen.query_one(EntryArea)


async def test_what_will_be_committed_is_shown_and_esc_returns_to_the_text() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press(*"wait", "ctrl+g")
        await until(pilot, lambda: "will be committed" in text_of(pilot.app))
        assert "+- Decision: wait" in text_of(pilot.app)
        await pilot.press(*"xq", "escape")
        assert type(pilot.app.screen) is EditorScreen
        await until(pilot, lambda: pilot.app.focused is area_of(pilot))
        await pilot.press(*"ing")
        assert "- Decision: waiting" in area_of(pilot).text
        await pilot.press("ctrl+g", "ctrl+s")
        await until(pilot, lambda: bool(books.saved))


async def test_templates_follow_each_other_and_typed_text_goes_only_when_asked_twice() -> None:
    async with writing(StandInBooks()) as pilot:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "- check" in area_of(pilot).text)
        assert "template 2 of 6: check" in text_of(pilot.app)
        await pilot.press(*"mine", "ctrl+t")
        assert "ctrl+t again replaces your text" in text_of(pilot.app)
        assert "mine" in area_of(pilot).text
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "- incident" in area_of(pilot).text)
        assert "mine" not in area_of(pilot).text
        await pilot.press("ctrl+z")
        assert "mine" in area_of(pilot).text
        await pilot.press("ctrl+y")
        assert "- incident" in area_of(pilot).text


async def test_a_template_left_as_it_began_is_no_draft() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "- check" in area_of(pilot).text)
        await pilot.press("escape")
        assert type(pilot.app.screen) is FleetScreen and books.drafts == {}


@pytest.mark.parametrize("character", ["e\u0301", "日", "👍\U0001f3fd", "n\u0303\u0323"])
async def test_a_character_is_stepped_over_and_deleted_whole(character: str) -> None:
    async with writing(StandInBooks()) as pilot:
        area = area_of(pilot)
        area.load_text(f"a{character}b")
        area.move_cursor((0, 1))
        await pilot.press("right")
        assert area.cursor_location == (0, 1 + len(character))
        await pilot.press("left")
        assert area.cursor_location == (0, 1)
        await pilot.press("right", "backspace")
        assert area.text == "ab"


async def test_a_paste_of_thousands_of_lines_comes_in_at_once() -> None:
    async with writing(StandInBooks()) as pilot:
        block = "\n".join(f"line {number} of what was seen" for number in range(5_000))
        began = time.process_time()
        pilot.app.post_message(events.Paste(block))
        await until(pilot, lambda: "line 4999 of" in area_of(pilot).text)
        await pilot.press("x", "ctrl+z", "ctrl+z")
        await until(pilot, lambda: area_of(pilot).text.strip() == ENTRY.strip().replace(
            "Decision:", "Decision: "))  # fmt: skip
        assert time.process_time() - began < 5.0
