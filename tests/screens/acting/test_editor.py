from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from cockpit.model.records import Recorded, SaveStage
from screens.acting.editor import EditorScreen
from screens.acting.entry_area import EntryArea
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
