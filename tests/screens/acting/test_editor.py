"""The logbook editor: what is typed, kept and saved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from cockpit.model.records import Recorded, SaveStage
from screens.acting.editor import EditorScreen, EntryArea
from screens.fleet import FleetScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import SIZES, StandIn, cockpit, focus_of, text_of
from tests.screens.stand_in_books import ENTRY, StandInBooks
from tests.widgets import reports as made


@asynccontextmanager
async def writing(
    books: StandInBooks, size: tuple[int, int] = (100, 30), **options: Any
) -> AsyncIterator[Pilot[Any]]:
    app = cockpit(
        engine=StandIn(made.report("run-a")), service=StandInService(), books=books, **options
    )
    async with app.run_test(size=size) as pilot:
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.focused, EntryArea))
        yield pilot


@pytest.mark.parametrize("size", SIZES)
async def test_the_entry_stands_below_the_tail_of_its_file(size: tuple[int, int]) -> None:
    async with writing(StandInBooks(), size) as pilot:
        shown = text_of(pilot.app)
        assert ".agents/logbooks/run.md" in shown
        assert shown.index("- Next: sleep") < shown.index("2026-03-11 08:55 UTC - note")
        assert "[/] [bold]" in shown
        assert "ctrl+s save" in shown and "esc keep draft" in shown


async def test_one_begins_to_write_where_something_is_missing() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press(*"wait")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: bool(books.saved))
        assert books.saved == [ENTRY.replace("- Decision:", "- Decision: wait")]
        assert books.savers == ["ada"], "what cannot be saved stays a draft of theirs"


async def test_the_state_of_saving_is_always_in_sight() -> None:
    books = StandInBooks()
    books.gate = asyncio.Event()
    async with writing(books, (80, 24)) as pilot:
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "◌ pushing…" in text_of(pilot.app))
        assert "✓ saved  ✓ committed 3fa2c1e" in text_of(pilot.app)
        books.gate.set()
        await until(pilot, lambda: "✓ pushed" in text_of(pilot.app))
        assert "esc close" in text_of(pilot.app) and "keep draft" not in text_of(pilot.app)
        await pilot.press("ctrl+s")
        assert "this entry is saved" in text_of(pilot.app)
        assert len(books.saved) == 1


async def test_a_push_that_fails_says_why_and_is_tried_again() -> None:
    books = StandInBooks()
    books.end = Recorded(
        stage=SaveStage.COMMITTED, commit="3fa2c1e", trouble="the remote rejected it"
    )
    async with writing(books) as pilot:
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "✗ not pushed: the remote rejected it" in text_of(pilot.app))
        assert "ctrl+r retry   esc close" in text_of(pilot.app)
        books.end = Recorded(stage=SaveStage.PUSHED, commit="3fa2c1e")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "✓ pushed" in text_of(pilot.app))
        assert (books.retried, len(books.saved)) == (1, 1)


async def test_what_could_not_be_saved_can_be_changed_and_saved_again() -> None:
    books = StandInBooks()
    books.end = Recorded(stage=SaveStage.NOTHING, trouble="disk full")
    async with writing(books) as pilot:
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "✗ not saved: disk full" in text_of(pilot.app))
        await pilot.press("x", "ctrl+s")
        await until(pilot, lambda: len(books.saved) == 2)
        assert books.saved[1] == ENTRY.replace("Decision:", "Decision: x")


async def test_a_draft_is_kept_within_a_second_and_found_again() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press(*"hm")
        await until(pilot, lambda: "Decision: hm" in books.drafts.get("run-a", ""))
        await pilot.press("!", "escape")
        await until(pilot, lambda: "Decision: hm!" in books.drafts["run-a"])
        await until(pilot, lambda: not isinstance(pilot.app.screen, EditorScreen))
        await pilot.press("e")
        await until(pilot, lambda: "draft restored" in text_of(pilot.app))
        assert "Decision: hm!" in text_of(pilot.app)


async def test_a_draft_is_kept_of_whoever_types_without_a_pause() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        for _ in range(300):
            await pilot.press("x")
            await pilot.pause(0.01)
            if "xxx" in books.drafts.get("run-a", ""):
                break
        else:
            raise AssertionError("nothing was kept while somebody typed")


async def test_tab_indents() -> None:
    async with writing(StandInBooks()) as pilot:
        await pilot.press("tab", "x")
        assert "- Decision:   x" in focus_of(pilot.app, EntryArea).text


async def test_only_looking_leaves_no_draft() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.pause(0.7)
        await pilot.press("escape")
        assert books.drafts == {}


async def test_leaving_the_program_keeps_the_draft() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press(*"late", "ctrl+q")
        await pilot.pause(0.2)
    assert "Decision: late" in books.drafts["run-a"]


async def test_a_secret_is_masked_where_the_writer_sees_it() -> None:
    books = StandInBooks()
    async with writing(books) as pilot:
        await pilot.press(*"hunter2", "ctrl+s")
        await until(pilot, lambda: "draft kept" in text_of(pilot.app))
        assert "a secret was masked" in text_of(pilot.app)
        assert books.saved == []
        await pilot.press("ctrl+s")
        await until(pilot, lambda: bool(books.saved))
        assert "hunter2" not in books.saved[0]


async def test_a_paste_comes_in_without_escape_sequences() -> None:
    async with writing(StandInBooks()) as pilot:
        focus_of(pilot.app, EntryArea).post_message(events.Paste("a\x1b]0;x\x07b\r\n日本語\t[/]"))
        await pilot.pause(0.1)
        assert "a]0;xb\n日本語\t[/]" in focus_of(pilot.app, EntryArea).text
        assert "\x1b" not in text_of(pilot.app)


@pytest.mark.parametrize("option", ["read_only", "present"])
async def test_nobody_writes_where_only_reading_is_allowed(option: str) -> None:
    app = cockpit(
        engine=StandIn(made.report("run-a")), service=StandInService(), books=StandInBooks(),
        **{option: True},
    )  # fmt: skip
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("e")
        await pilot.pause(0.1)
        assert not isinstance(app.screen, EditorScreen)
        assert "log entry:" in text_of(app) and "read-only" in text_of(app)


async def test_a_run_without_a_logbook_says_so() -> None:
    report = made.report("run-a")
    records = report.spec.records.model_copy(update={"logbook": None})
    spec = report.spec.model_copy(update={"records": records})
    engine = StandIn(report.model_copy(update={"spec": spec}))
    app = cockpit(engine=engine, service=StandInService(), books=StandInBooks())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("e")
        await pilot.pause(0.1)
        assert "no logbook in cockpit.toml" in text_of(app)


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
