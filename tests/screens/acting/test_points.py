"""A handoff goes through what is open, one by one, and ends in the typed transfer."""

from __future__ import annotations

import time

import pytest

from cockpit.model.alert import Evidence
from cockpit.model.records import PointMark, note_of, points_of
from cockpit.model.report import RunReport
from screens.acting.form import FormScreen
from screens.acting.journal import PointsScreen
from screens.fleet import FleetScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, cockpit, text_of
from tests.screens.stand_in_books import StandInBooks
from tests.widgets import reports as made


def run_failed() -> RunReport:
    return next(each for each in made.fleet() if each.name == "run-failed")


def test_the_points_are_what_is_open_of_a_run() -> None:
    report = run_failed().model_copy(update={"closed": (made.closed("C-11", False),)})
    points = points_of(report, [("relaunch of 7", "its end is not known")])
    assert [each.code for each in points] == ["", *(a.id for a in report.alerts), "C-11", ""]
    first, worst, last = points[0], points[1], points[-1]
    assert first.title == "Unresolved: relaunch of 7" and "not known" in first.evidence[0][0]
    assert worst.title == report.alerts[0].title and worst.next == report.alerts[0].next_action
    assert [text for text, _ in worst.evidence] == [e.text for e in report.alerts[0].evidence][:6]
    assert last.title.startswith("Next check: ") and last.next == report.next_action
    assert last.evidence == (("every 10m, only while a cockpit is open", "watch"),)
    other = report.model_copy(update={"watched_by": "ada (watch on box, pid 1)"})
    assert points_of(other, [])[-1].evidence == (
        ("every 10m, watched by ada (watch on box, pid 1)", "watch"),
    )
    seen = report.model_copy(update={"closed": (made.closed("C-11", True),)})
    assert "C-11" not in {each.code for each in points_of(seen, [])}


def test_what_cannot_be_seen_or_is_not_pushed_is_open_too() -> None:
    lost = next(each for each in made.fleet() if each.name == "run-lost")
    unknown = [each.title for each in points_of(lost, []) if each.title.startswith("Unknown: ")]
    facets = {name for name, each in lost.facets.items() if each.configured and not each.known}
    assert unknown and {each.removeprefix("Unknown: ") for each in unknown} <= facets


def test_the_note_tells_what_was_left_open_and_what_nobody_looked_at() -> None:
    points = points_of(run_failed(), [])
    assert len(points) == 3
    marks = {points[0].key: PointMark(True), points[1].key: PointMark(False, "ada looks at 9")}
    named = f"{points[1].title} ({points[1].code}): ada looks at 9"
    assert note_of(points, marks) == (
        f"Discussed: 1 of 3 open points. Left open: {named}. Not gone through: {points[2].title}"
    )
    assert note_of(points[:1], marks) == "Discussed: 1 of 1 open points"


async def test_points_stand_on_the_readers_clock_with_ages_and_the_note_keeps_dates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worst, *others = run_failed().alerts
    said = (
        Evidence(text="loss inf since 2026-03-11 08:40:10Z", source="W&B"),
        Evidence(text="died 2026-03-11 08:40:11Z", source="/data/run.log:7"),
    )
    sick = worst.model_copy(update={"evidence": said, "since_or_before": True})
    report = run_failed().model_copy(update={"alerts": (sick, *others)})
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        app = cockpit(engine=StandIn(report), service=StandInService())
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.press("W")
            await until(pilot, lambda: "0 of 3" in text_of(app))
            shown = text_of(app)
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
    assert "12m+ │" in shown and "42m │" in shown and "Next check: 09:56" in shown
    assert "loss inf since 09:40:10" in shown
    assert "died 2026-03-11 08:40:11Z" in shown, "a quotation stays as it stands there"
    assert note_of(points_of(report, []), {}).endswith("Next check: 2026-03-11 08:56 UTC")


async def test_marks_and_notes_end_in_the_transfer_s_form() -> None:
    app = cockpit(engine=StandIn(run_failed()), service=StandInService())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, PointsScreen))
        assert "0 of 3" in text_of(app) and run_failed().alerts[0].evidence[0].text in text_of(app)
        await pilot.press("d", "o", *"ada at 9", "enter")
        await until(pilot, lambda: "note: ada at 9" in text_of(app) and "2 of 3" in text_of(app))
        await pilot.press("escape", "W")
        await until(pilot, lambda: "2 of 3" in text_of(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        form = app.screen
        assert isinstance(form, FormScreen)
        assert form.values["note"].startswith("Discussed: 1 of 3 open points. Left open: ")
        assert ": ada at 9. Not gone through: Next check" in form.values["note"]


async def test_a_note_is_of_the_point_that_it_was_asked_for_or_of_none() -> None:
    """An alert closes while somebody types about it: the next one has not been looked at."""
    engine, report = StandIn(run_failed()), run_failed()
    app = cockpit(engine=engine, service=StandInService())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("W", "o", *"ada at 9")
        engine.tell(report.model_copy(update={"alerts": report.alerts[1:]}))
        await until(pilot, lambda: "0 of 2" in text_of(app))
        await pilot.press("enter")
        await until(pilot, lambda: "gone: nothing was noted" in app.notice)
        assert "ada at 9" not in text_of(app)
        again = report.alerts[0].model_copy(update={"since": report.alerts[0].since + 600})
        await pilot.press("d")
        await until(pilot, lambda: "1 of 2" in text_of(app))
        engine.tell(report.model_copy(update={"alerts": (again, *report.alerts[1:])}))
        await until(pilot, lambda: "1 of 3" in text_of(app))


@pytest.mark.parametrize("present", [False, True])
async def test_an_unfinished_draft_is_a_point_and_what_it_says_is_not(present: bool) -> None:
    books = StandInBooks()
    await books.keep(run_failed(), "half a thought\nof mine")
    app = cockpit(
        engine=StandIn(run_failed()), service=StandInService(), books=books, present=present
    )
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("W")
        await until(pilot, lambda: "0 of 4" in text_of(app))
        assert "A log entry was begun and not saved" in text_of(app)
        await pilot.press("d", "d")
        await until(pilot, lambda: "2 lines, 03:12 (5h 40m ago)" in text_of(app))
        shown = text_of(app)
        assert "thought" not in shown and ("by ada" in shown) is not present
        books.drafts.clear()
        await pilot.press("escape", "W")
        await until(pilot, lambda: "2 of 3" in text_of(app))


async def test_presenting_goes_through_the_points_and_refuses_the_transfer() -> None:
    app = cockpit(engine=StandIn(run_failed()), service=StandInService(), present=True)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("W", "d")
        await until(pilot, lambda: "1 of 3" in text_of(app))
        assert "handoff" not in text_of(app).splitlines()[-1]
        await pilot.press("enter")
        await until(pilot, lambda: "handoff: presenting, read-only" in app.notice)
        assert isinstance(app.screen, FleetScreen)
