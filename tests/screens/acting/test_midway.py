"""What changes below a dialog that stands open, and what a form keeps when its plan fails."""

from __future__ import annotations

from textual import events

from cockpit.actions.core.action import RefuseError
from screens.acting.form import AckScreen, FormScreen
from screens.acting.offers import PaletteScreen, commands_like
from screens.acting.plan import PlanScreen
from screens.dialog import TOO_SOON, TextLine
from screens.fleet import FleetScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_guarded import opened
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, app_of, screen_of, text_of, typed
from widgets.scrolled import Paged


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
