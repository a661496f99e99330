"""The whole app: every frame stands on the terminal as Textual would have written it, for less."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.pilot import Pilot

from cockpit.app.cell_output import CellApp
from cockpit.app.first_paint import FirstPaint
from cockpit.app.terminal import TerminalApp
from cockpit.model.report import Facets, RunReport, unread
from cockpit.model.run import JobSpec
from tests.app.recorded import Recorded, recorded
from tests.screens.stand_in import StandIn, app_of, cockpit
from tests.widgets import reports as made

SIZE = (120, 40)


async def spent(pilot: Pilot[Any], output: Recorded, *keys: str) -> int:
    """Return the bytes that keys cost."""
    await pilot.pause()
    before = output.written
    await pilot.press(*keys)
    await pilot.pause(0.05)
    return output.written - before


async def test_whatever_is_pressed_is_shown_as_textual_shows_it() -> None:
    app = cockpit()
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.press("j", "question_mark", "escape", "enter", "3", "escape", "colon", "x")
        assert output.frames > 10 and output.written < output.plain_bytes / 4
        assert "╭ commands" in output.ours.text() or output.ours.text() == output.plain.text()


async def test_what_comes_while_the_terminal_is_busy_is_shown_once_it_has_taken_the_rest() -> None:
    engine = StandIn(*made.fleet())
    app = cockpit(engine=engine)
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.pause()
        output.line.waits = True
        await pilot.press("question_mark")
        await pilot.press("escape", "j")
        assert output.ours.seen() != output.plain.seen()
        output.line.waits = False
        assert output.line.then is not None
        output.line.then()
        await pilot.pause()
        assert output.ours.seen() == output.plain.seen()


def being_read(name: str) -> RunReport:
    """Of a run that is read in parts the checkpoints came first."""
    run = made.spec(name, final_step=20_000, job=JobSpec(kind="local"))
    seen = Facets(checkpoints=made.checkpoints(made.checkpoint(8_000)))
    return unread(run, seen, made.NOW)


async def test_a_fleet_that_is_read_fills_the_panels_in_which_it_stands() -> None:
    """Frames are written once, at the start, whichever run is read first."""
    names = [f"run-{at}" for at in range(12)]
    runs = [made.spec(each, final_step=20_000, job=JobSpec(kind="local")) for each in names]
    engine = StandIn(*(unread(each, Facets(), made.NOW) for each in runs))
    app = cockpit(engine=engine)
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.pause(0.05)
        first = len(output.line.sent)
        assert output.ours.text().count("NOT READ YET") == len(names)
        assert "not asked" not in output.ours.text(), "that is said once"
        for part in ([being_read(each) for each in names[::2]], map(made.report, names)):
            for each in part:
                engine.tell(each)
            app.show_news()
            await pilot.pause(0.05)
        assert output.ours.text().count("HEALTHY") == len(names)
        assert not set("│╭╯") & set("".join(output.line.sent[first:]))


async def test_the_cursor_stands_where_text_is_typed() -> None:
    app = cockpit()
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.press("slash", "a", "b")
        place = app.cursor_position
        assert (output.ours.x, output.ours.y) == (place.x, place.y) and place.y > 0
        assert output.ours.lines()[place.y][: place.x].rstrip().endswith("ab")


async def test_a_write_that_failed_and_words_of_others_are_painted_over() -> None:
    app = cockpit()
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.pause()
        output.ours.feed("\x1b[2;4r\x1b[31mBroadcast message from root\n\n\n\n\x1b[5;5H\x1b[J")
        output.line.failed = True
        await pilot.press("j")
        assert output.ours.seen() == output.plain.seen()
        output.ours.feed("\x1b[HBroadcast message from root")
        assert isinstance(app, CellApp)
        app.repaint()
        assert output.ours.seen() == output.plain.seen()


async def test_a_kept_frame_stands_no_more_once_others_have_written_over_it() -> None:
    app = cockpit()
    async with app.run_test(size=SIZE) as pilot:
        recorded(app, SIZE)
        await pilot.pause()
        assert isinstance(app, TerminalApp) and app.cells is not None
        app.cells.kept = True
        app.live_wanted.clear()
        shown, remembered = asyncio.Event(), asyncio.Event()
        first = FirstPaint(app, shown)
        first.wait(None, remembered.set)
        await remembered.wait()
        assert not shown.is_set()
        app.repaint()  # as it does when it goes on after a stop
        assert app.live_wanted.is_set()
        await asyncio.wait_for(shown.wait(), 20)


async def test_a_write_that_failed_is_made_good_though_nothing_changes() -> None:
    app = cockpit()
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.press("j")
        await pilot.pause()
        before = output.written
        app._in_time()
        assert output.written == before
        output.ours.feed("\x1b[J")
        output.line.failed = True
        app._in_time()
        assert output.ours.seen() == output.plain.seen()


async def test_a_fault_in_between_leaves_textual_to_write() -> None:
    app = cockpit()
    app.keep_fault = lambda error: f"kept {error}"  # type: ignore[method-assign]
    async with app.run_test(size=SIZE) as pilot:
        output = recorded(app, SIZE)
        await pilot.pause()
        output.stage.frame = None  # type: ignore[method-assign,assignment]
        await pilot.press("j")
        assert app.cells is None and "kept" in app.notice


async def test_a_step_of_the_cursor_and_one_new_figure_cost_next_to_nothing() -> None:
    engine = StandIn(*made.fleet())
    app = cockpit(engine=engine)
    async with app.run_test(size=(200, 50)) as pilot:
        output = recorded(app, (200, 50))
        output.stage.can_repeat()
        assert await spent(pilot, output, "t") > 4_000
        assert await spent(pilot, output, "j") <= 400
        await pilot.pause()
        before = output.written
        engine.tell(made.report("run-well", seen=made.facets(tracker=made.tracker(loss=2.315))))
        app_of(pilot).show_news()
        await pilot.pause()
        assert 0 < output.written - before <= 60
