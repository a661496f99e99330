"""The screen as it was: a moment of the past, its band, the keys that scrub and those that act."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.model.report import RunReport
from screens.past import IS_PAST, HappenedScreen, PastScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.stand_in import LONG, StandIn, cockpit, screen_of, text_of
from tests.screens.test_run import until, with_book, with_log, write_log
from tests.widgets import reports as made

BEGIN = made.NOW - 3600.0
SICK = BEGIN + 1800.0


@asynccontextmanager
async def past(*keys: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[Any]]:
    report = made.failed()
    engine = StandIn(report)
    engine.pasts.tell(report)
    app = cockpit(engine=engine, run=report.name, service=StandInService())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("5")
        await until(pilot, lambda: "all that happened" in text_of(app))
        await pilot.press("P", *keys)
        await until(pilot, lambda: isinstance(app.screen, PastScreen))
        yield pilot


def at(pilot: Pilot[Any]) -> float:
    screen = pilot.app.screen
    assert isinstance(screen, PastScreen)
    return screen.at


async def comes_to(pilot: Pilot[Any], moment: float) -> None:
    await until(pilot, lambda: at(pilot) == moment)


@pytest.mark.parametrize("size", [(120, 40), *([(80, 24), (200, 50)] if LONG else [])])
async def test_the_run_is_shown_as_it_was_at_each_moment_that_is_scrubbed(
    size: tuple[int, int],
) -> None:
    async with past(size=size) as pilot:
        await comes_to(pilot, SICK)
        shown = text_of(pilot.app)
        assert shown.startswith(" PAST  ") and "as recorded then" in shown
        assert "30m ago" in shown and "esc returns to now" in shown and "CRITICAL" in shown
        await pilot.press("left")
        await comes_to(pilot, BEGIN + 60)
        shown = text_of(pilot.app)
        assert "HEALTHY" in shown and "CRITICAL" not in shown
        assert "as recorded 1m before" in shown
        await pilot.press("down")
        await comes_to(pilot, BEGIN - 60)
        shown = text_of(pilot.app)
        assert "nothing is kept of it from before" in shown and "HEALTHY" not in shown
        await pilot.press("down")
        assert "nothing before that is known" in text_of(pilot.app)
        await pilot.press("end")
        await comes_to(pilot, SICK)
        await pilot.press("right")
        assert "no later moment is known" in text_of(pilot.app)
        await pilot.press("o")
        shown = text_of(pilot.app)
        assert "timeline · alerts only" in shown and "Checkpoint 400 saved" not in shown


async def test_no_key_acts_on_the_past_a_time_can_be_typed_and_escape_returns_to_now() -> None:
    async with past() as pilot:
        await comes_to(pilot, SICK)
        last = text_of(pilot.app).splitlines()[-1]
        assert "relaunch" not in last and "esc back" in last
        for key in ("r", "p", "J", "B", "c", "y"):
            pilot.app.say("")  # type: ignore[attr-defined]
            await pilot.press(key)
            assert isinstance(pilot.app.screen, PastScreen)
            assert IS_PAST in text_of(pilot.app), key
        curve = "loss · up to then"
        for key, frame in (("1", "log"), ("2", curve), ("5", "what is wrong")):
            await pilot.press(key)
            assert f"╭ {frame}" in text_of(pilot.app)
        await pilot.press("slash", *"-45m", "enter")
        await comes_to(pilot, made.NOW - 2700.0)
        assert "as recorded 15m before" in text_of(pilot.app)
        await pilot.press("slash", "x", "enter")
        assert "is not a time" in text_of(pilot.app) and at(pilot) == made.NOW - 2700.0
        engine = pilot.app._engine  # type: ignore[attr-defined]
        engine.pasts.fault = TimeoutError("no answer within 10 s")
        await pilot.press("left")
        await until(
            pilot, lambda: "cannot read the past: no answer within 10 s" in text_of(pilot.app)
        )
        assert "HEALTHY" not in text_of(pilot.app)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, RunScreen)
        assert "PAST" not in text_of(pilot.app)


@asynccontextmanager
async def past_of(report: RunReport, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Any]:
    engine = StandIn(report)
    engine.pasts.tell(report)
    app = cockpit(engine=engine, run=report.name, service=StandInService())
    async with app.run_test(size=size) as pilot:
        await pilot.press("5", "P")
        await until(pilot, lambda: isinstance(app.screen, PastScreen))
        await comes_to(pilot, SICK)
        yield pilot, engine


async def test_the_log_is_read_up_to_then_and_paged(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 2000)
    report = with_log(path)
    write_log(path, 5000)
    async with past_of(report) as (pilot, _):
        await pilot.press("1")
        await until(pilot, lambda: "log · read from the file" in text_of(pilot.app))
        shown = text_of(pilot.app)
        assert "line 001999 of the log" in shown and "line 002000" not in shown
        for _ in range(200):  # some are for nothing while what stands above is being read
            if "line 0012" in text_of(pilot.app):
                break
            await pilot.press("pageup")
        assert "line 0012" in text_of(pilot.app)
        assert "line 001999" not in text_of(pilot.app)


async def test_a_log_that_is_another_one_by_now_gives_way_to_the_lines_that_were_kept() -> None:
    report = made.report("run-a", seen=made.facets(log=made.log("kept one", "kept two")))
    async with past_of(report) as (pilot, _):
        await pilot.press("1")
        await until(pilot, lambda: "the last 2 lines then, as kept; " in text_of(pilot.app))
        assert "kept two" in text_of(pilot.app) and "reading the log" not in text_of(pilot.app)


async def test_the_logbook_is_shown_as_it_stood_then(tmp_path: Path) -> None:
    book = tmp_path / "book.md"
    early, late = (datetime.fromtimestamp(at, UTC) for at in (SICK - 600, SICK + 600))
    book.write_text(
        "".join(f"### {at:%Y-%m-%d %H:%M} UTC - the {words} one\n\n" for at, words in
                ((early, "early"), (late, "late")))
    )  # fmt: skip
    report = with_book(book)
    async with past_of(report) as (pilot, _):
        await pilot.press("6")
        await until(pilot, lambda: "the early one" in text_of(pilot.app))
        assert "the late one" not in text_of(pilot.app) and "dated by then" in text_of(pilot.app)
        await pilot.press("left", "left")
        await until(pilot, lambda: "the early one" not in text_of(pilot.app))


async def test_the_past_of_all_runs_is_listed_and_leads_to_each_run_as_it_was() -> None:
    engine = StandIn(made.failed("run-a"), made.failed("run-b"))
    engine.pasts.tell(engine.runs[0])
    app = cockpit(engine=engine, service=StandInService())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: text_of(app).count("Killed by signal 9") == 2)
        assert isinstance(app.screen, HappenedScreen)
        shown = text_of(app)
        assert shown.count("Checkpoint 400 saved") == 2 and "runs still to read" not in shown
        assert shown.index("Killed by") < shown.index("Checkpoint 400")
        await pilot.press("o")
        shown = text_of(app)
        assert "past of the fleet · alerts only" in shown and "Checkpoint 400" not in shown
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, PastScreen))
        await comes_to(pilot, SICK)
        assert screen_of(app, PastScreen).runs_in_view == ("run-b",)
        await pilot.press("escape", "escape")
        engine.pasts.fault = TimeoutError("no answer within 10 s")
        await pilot.press("T")
        said = "cannot read the past of run-a, run-b: no answer within 10 s"
        await until(pilot, lambda: said in text_of(app))
        await pilot.press("enter")
        assert "nothing has happened yet" in text_of(app)
        engine.pasts.fault, app._clock.at = None, app._clock.at + 6.0  # type: ignore[attr-defined]
        app.show_news()
        await until(pilot, lambda: text_of(app).count("Killed by signal 9") == 2)
        assert "cannot read" not in text_of(app)


async def test_the_past_of_all_runs_says_what_is_missing_and_how_much_is_listed() -> None:
    engine = StandIn(made.failed("run-a"), made.failed("run-b"))
    engine.pasts.tell(engine.runs[0])
    event, *_ = engine.pasts.found.happenings
    many = tuple(event.model_copy(update={"at": event.at - at}) for at in range(300))
    lacks = ("older alerts, jobs and actions are unknown: locked",)
    engine.pasts.found = engine.pasts.found.model_copy(update={"happenings": many, "lacks": lacks})
    app = cockpit(engine=engine, service=StandInService())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: "the newest 500 of 600" in text_of(app))
        assert f"run-a, run-b: {lacks[0]}" in text_of(app)
        engine.pasts.found = engine.pasts.found.model_copy(update={"happenings": ()})
        app._clock.at += 61.0  # type: ignore[attr-defined]
        app.show_news()
        await until(pilot, lambda: "Killed by" not in text_of(app))
        assert lacks[0] in text_of(app)
        assert "nothing has happened" not in text_of(app)
