"""A handoff goes through what is open, one by one, and ends in the typed transfer.

What changes below a dialog that stands open, and what a form keeps when its plan fails.

Which actions a run is offered, and the palette that lists them.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.table import TABLE
from cockpit.app.commands import commands as commands_of
from cockpit.model.alert import Evidence
from cockpit.model.observed import UNCLEAR, Phase
from cockpit.model.records import PointMark, note_of, points_of
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import WandbSpec
from screens.acting.form import AckScreen, FormScreen
from screens.acting.journal import PointsScreen
from screens.acting.offers import (
    GROUPS,
    NEXT,
    NOT_NOW,
    RUNS,
    Command,
    PaletteScreen,
    choices,
    command_rows,
    commands_like,
    fields_of,
    heading,
    in_groups,
    next_verb,
    offers,
    warning,
)
from screens.acting.plan import PlanScreen
from screens.dialog import TOO_SOON, TextLine
from screens.fleet import FleetScreen
from screens.keys import Keys
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_guarded import opened
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, app_of, cockpit, screen_of, text_of, typed
from tests.screens.stand_in_books import StandInBooks
from tests.widgets import reports as made
from tests.widgets.anything import words
from widgets.painting.plan import FIELD_LABEL
from widgets.scrolled import Paged


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


async def test_a_form_whose_plan_makes_no_sense_is_there_again_as_it_was_typed() -> None:
    service = StandInService()
    service.trouble = RefuseError("--to is 'bob'; expected somebody else")
    async with opened(service) as pilot:
        await pilot.press("H", *"bob", "tab", *"good night", "enter")
        await until(pilot, lambda: "esc back to what was typed" in text_of(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen))
        assert "good night" in text_of(pilot.app)
        service.trouble = None
        await pilot.press("y", "enter")
        await until(pilot, lambda: bool(service.planned))
        assert service.planned[0][0].params == {"to": "boby", "note": "good night"}


async def test_a_form_that_is_left_is_found_as_it_was_until_it_has_begun() -> None:
    service = StandInService()
    async with opened(service) as pilot:
        await pilot.press("H", *"bob", "escape", "H")
        assert pilot.app.screen.query("TextLine").first(TextLine).value == "bob"
        await pilot.press("enter")
        await until(pilot, lambda: "Type  handoff run-failed" in text_of(pilot.app))
        await pilot.pause(0.4)
        await typed(pilot, "handoff run-failed")
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: bool(service.acted) and "DONE" in text_of(pilot.app))
        await pilot.press("escape", "H")
        assert pilot.app.screen.query("TextLine").first(TextLine).value == ""


async def test_an_alert_that_is_taken_says_so_as_soon_as_the_watch_knows() -> None:
    engine = StandIn(failed())
    async with opened(StandInService(), engine=engine) as pilot:
        await pilot.press("A")
        report = engine.runs[0]
        engine.tell(report.model_copy(update={"alerts": report.alerts[:1]}))
        page = pilot.app.screen.query_one(Paged)
        await until(pilot, lambda: all("is torn" not in line.plain for line in page.lines))


async def test_enter_takes_no_other_alert_when_the_selected_one_closes() -> None:
    service, engine = StandInService(), StandIn(failed())
    async with opened(service, engine=engine) as pilot:
        await pilot.press("A")
        await pilot.pause(0.4)
        report, pressed_before = engine.runs[0], events.Key("enter", None)
        engine.tell(report.model_copy(update={"alerts": report.alerts[1:]}))
        await until(pilot, lambda: "has closed: look again" in text_of(pilot.app))
        pilot.app.post_message(pressed_before)
        await until(pilot, lambda: TOO_SOON in text_of(pilot.app))
        assert service.acted == []


async def test_a_run_that_leaves_the_run_file_is_told_in_its_dialog() -> None:
    service, engine = StandInService(), StandIn(failed())
    async with opened(service, engine=engine) as pilot:
        await pilot.press("A")
        await pilot.pause(0.4)
        engine.runs.clear()
        app_of(pilot)._take_all()
        assert "is no longer in the run file" in text_of(pilot.app)
        await pilot.press("enter", "u", "w", "escape")
        assert isinstance(pilot.app.screen, FleetScreen)
        assert service.acted == []


async def test_a_plan_of_a_run_that_is_gone_does_nothing() -> None:
    service, engine = StandInService(), StandIn(failed())
    async with opened(service, engine=engine) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "Type  relaunch run-failed" in text_of(pilot.app))
        engine.runs.clear()
        app_of(pilot)._take_all()
        service.result = None
        service.trouble = RefuseError("no run 'run-failed'")
        screen_of(pilot.app, PlanScreen).plan_again("nothing was done")
        await until(pilot, lambda: "■ no plan: no run 'run-failed'" in text_of(pilot.app))
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, PlanScreen | AckScreen)


async def test_the_palette_puts_what_is_named_so_before_what_is_described_so() -> None:
    async with opened(StandInService()) as pilot:
        await pilot.press(":")
        screen = pilot.app.screen
        assert isinstance(screen, PaletteScreen)
        commands = screen._commands
        for letters, call in (("lineage", "act:lineage"), ("retain", "act:retain"),
                              ("launch", "act:launch"), ("acknowledge", "act:ack")):  # fmt: skip
            assert commands_like(commands, letters)[0].call == call


@pytest.mark.parametrize("verb", [row.verb for row in TABLE])
def test_a_title_names_the_run_and_labels_leave_room_for_their_marks(verb: str) -> None:
    assert "run-a" in heading(verb, "run-a")
    labels = [each.label for each in fields_of(verb, made.report())]
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= FIELD_LABEL - len("▸ * ") for label in labels)


def test_where_to_upload_to_stands_in_the_form_as_the_run_file_has_it() -> None:
    report = made.report()
    wandb = WandbSpec(entity="lab", project="moe", id="x")
    report = report.model_copy(update={"spec": report.spec.model_copy(update={"wandb": wandb})})
    assert [each.value for each in fields_of("sync", report)] == ["lab", "moe"]
    bare = report.model_copy(update={"spec": report.spec.model_copy(update={"wandb": None})})
    assert [each.value for each in fields_of("sync", bare)] == ["", ""]


def test_a_job_is_called_healthy_by_its_verdict_alone() -> None:
    def said(verb: str, verdict: Verdict, phase: Phase, state: str) -> str:
        facets = made.facets(job=made.job(phase, state=state))
        return warning(verb, made.report(verdict=verdict, facets=facets))

    well, unknown = Verdict.HEALTHY, Verdict.UNKNOWN
    assert said("relaunch", well, Phase.RUNNING, "RUNNING") == "running and healthy (RUNNING)"
    assert said("relaunch", unknown, Phase.RUNNING, "RUNNING") == "running (RUNNING)"
    assert said("relaunch", well, Phase.WAITING, "PENDING") == "waiting to run (PENDING)"
    for verb in ("launch", "relaunch", "stop", "seal"):
        assert said(verb, unknown, Phase.UNKNOWN, UNCLEAR) == "the job's state is unknown"


def offers_failed(next_action: str = "relaunch from step 8,000") -> Any:
    report = made.failed()
    spec = report.spec.model_copy(update={"resubmit": ("python", "train.py")})
    return report.model_copy(update={"spec": spec, "next_action": next_action})


def listed(report: Any, reading_only: str = "") -> list[Command]:
    return choices(report, offers(report, Keys(), reading_only))


def test_the_next_safe_action_is_first_and_says_why() -> None:
    first = listed(offers_failed())[0]
    assert (first.verb, first.group, first.help) == ("relaunch", NEXT, "relaunch from step 8,000")
    assert [each.group for each in listed(offers_failed())].count(NEXT) == 1


@pytest.mark.parametrize(
    ("advice", "verb"),
    [("escalate to ada; do not relaunch", "escalate"), ("seal run-failed", "seal"),
     ("fix evaluation.py:14, then relaunch", "ack"), ("relaunching it is no default", "ack")],
)  # fmt: skip
def test_advice_names_an_action_only_by_its_own_imperative(advice: str, verb: str) -> None:
    assert next_verb(offers_failed(advice)) == verb


def test_an_action_against_which_something_speaks_is_never_next() -> None:
    listing = listed(made.report("run-well").model_copy(update={"next_action": "relaunch it"}))
    assert all(each.group != NEXT for each in listing)
    assert next(each for each in listing if each.verb == "relaunch").group == NOT_NOW
    assert all(each.group == NOT_NOW for each in listed(offers_failed(), "read-only"))


def test_what_failed_is_not_offered_to_be_sealed() -> None:
    seal = next(each for each in listed(offers_failed()) if each.verb == "seal")
    assert seal.group == NOT_NOW and seal.note == "not finished (FAILED)"


def test_the_runs_stand_there_as_in_the_fleet_the_worst_first() -> None:
    fleet = StandIn(*reversed(made.fleet()))
    app = cockpit(engine=fleet)
    listing = [each.title for each in commands_of(app, ("everywhere",), "") if each.group == RUNS]
    assert listing[0] in ("run-failed", "run-nan") and listing[-1] == "run-well"


commands = st.builds(Command, title=words, help=words, call=words, key=words, why_not=words,
                     note=words, group=st.sampled_from(GROUPS))  # fmt: skip


@given(st.lists(commands, max_size=4).map(in_groups), st.integers(1, 200), st.booleans())
def test_property_no_line_is_too_wide(listing: list[Command], width: int, headed: bool) -> None:
    rows = command_rows(listing, headed)
    painted = [line for row in rows for line in row.paint(width, True)]
    assert all(line.cell_length <= max(width, 16) for line in painted)
    assert [row.key for row in rows if row.key] == [str(at) for at in range(len(listing))]
