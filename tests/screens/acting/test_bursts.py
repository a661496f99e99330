"""Keys that arrive in one burst: each does what it would have done alone, in its turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.screen import Screen

from screens.acting.editor import EditorScreen, EntryArea
from screens.acting.form import AckScreen, FormScreen
from screens.acting.journal import JournalScreen
from screens.acting.offers import PaletteScreen
from screens.acting.plan import PlanScreen
from screens.dialog import Prompt
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import failed, until
from tests.screens.fuzz import settled
from tests.screens.stand_in import StandIn, app_of, cockpit, text_of, typed
from tests.screens.stand_in_books import StandInBooks
from tests.widgets import reports as made
from tests.widgets.reports import facets

NAMES = {"/": "slash", " ": "space", "-": "minus", ":": "colon", "?": "question_mark"}


async def burst(pilot: Pilot[Any], *keys: str) -> None:
    """Send keys as one read of the terminal brings them: none waits for what another does."""
    for key in keys:
        alone = len(key) == 1
        name = NAMES.get(key, key) if alone else key
        pilot.app.post_message(events.Key(name, key if alone else None))
    await pilot.pause(0.3)
    await settled(app_of(pilot))


async def test_what_follows_the_slash_is_typed_not_obeyed() -> None:
    app = cockpit(service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, "/", *"execrHxb-")
        assert isinstance(app.screen, FleetScreen)
        assert app.screen.query_one(Prompt).value == "execrHxb-"


async def test_deleting_and_typing_keep_their_order() -> None:
    app = cockpit()
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, "/", *"old", "ctrl+u", *"neu", "backspace", *"w", "enter")
        assert "/new" in text_of(app)


async def test_a_form_takes_a_choice_before_the_enter_behind_it() -> None:
    report = failed()
    value = made.checkpoints(made.checkpoint(8_000), made.checkpoint(7_750))
    report = report.model_copy(update={"facets": facets(checkpoints=value)})
    given: list[dict[str, str] | None] = []
    app = cockpit(engine=StandIn(report))
    async with app.run_test(size=(120, 40)) as pilot:
        from screens.acting.offers import fields_of

        form = FormScreen(app, "rollback run-failed", fields_of("rollback", report))
        app.push_screen(form, given.append)
        await pilot.pause(0.1)
        await burst(pilot, "down", "tab", *"why", "tab", "down", "enter")
        assert given == [{"to": "7750", "reason": "why", "move": "yes"}]


async def test_the_palette_chooses_among_what_was_found() -> None:
    chosen: list[str | None] = []
    app = cockpit(service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        screen = PaletteScreen(app._commands())
        app.push_screen(screen, chosen.append)
        await pilot.pause(0.1)
        await pilot.press(*"run-")
        second = screen._listed[1].call
        await pilot.press("ctrl+u")
        await burst(pilot, *"run-", "down", "enter")
        assert chosen == [second]


async def test_an_enter_from_before_the_list_takes_no_alert() -> None:
    service = StandInService()
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        await burst(pilot, "A", "enter")
        assert isinstance(app.screen, AckScreen)
        assert not service.acted
        screen = app.screen
        await until(pilot, lambda: screen.read_from is not None)
        await pilot.pause(0.4)
        await pilot.press("enter")
        await until(pilot, lambda: bool(service.acted))


async def test_a_relaunch_in_one_burst_does_nothing() -> None:
    service = StandInService()
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        await burst(pilot, "r", *"relaunch run-failed", "enter", "enter")
        assert isinstance(app.screen, PlanScreen)
        assert not service.acted


@pytest.mark.parametrize("key", ["alt+x", "alt+enter", "alt+colon", "alt+s", "alt+b"])
async def test_esc_that_came_with_a_key_leaves_the_plan_then_is_that_key(key: str) -> None:
    service = StandInService()
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "Type  relaunch" in text_of(app))
        await pilot.pause(0.4)
        await typed(pilot, "relaunch run-failed")
        plan = app.screen
        await pilot.pause(0.2)
        await pilot.press(key)
        await pilot.pause(0.1)
        assert plan not in app.screen_stack and service.acted == []
        there: dict[str, type[Screen[Any]]] = {
            "alt+x": FormScreen, "alt+b": FormScreen, "alt+enter": RunScreen,
            "alt+colon": PaletteScreen, "alt+s": FleetScreen,
        }  # fmt: skip
        assert type(app.screen) is there[key]
        assert ("sorted by name" in text_of(app)) == (key == "alt+s")


@pytest.mark.parametrize(
    ("key", "where"), [("A", AckScreen), (":", PaletteScreen), ("x", FormScreen), ("?", HelpScreen)]
)
async def test_esc_that_came_with_a_key_leaves_every_dialog(key: str, where: type) -> None:
    app = cockpit(engine=StandIn(failed()), service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, where))
        await pilot.press("alt+s")
        await pilot.pause(0.1)
        assert isinstance(app.screen, FleetScreen) and "sorted by name" in text_of(app)


async def test_the_pages_keys_turn_the_plans_page() -> None:
    app = cockpit(engine=StandIn(failed()), service=StandInService())
    async with app.run_test(size=(80, 18)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "Type  relaunch" in text_of(app))
        await pilot.pause(0.4)
        await pilot.press(*"rel")
        top = text_of(app)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: text_of(app) != top)
        await pilot.press("ctrl+u")
        await until(pilot, lambda: text_of(app) == top)


@pytest.mark.parametrize(
    ("keys", "stands"),
    [
        (("enter", "escape", "escape"), FleetScreen),
        (
            ("enter", "/", *"loss", "enter", "escape", "escape"),
            FleetScreen,
        ),  # one may stop a search
        (("enter", "?", "escape", "2", "tab"), RunScreen),
        (("?", "escape", "J"), JournalScreen),
        (("w", "A"), AckScreen),
        (("z", "A", "escape", ":", *"journal", "enter"), JournalScreen),
        (("H", "escape", "p", "escape", "enter", "n", "n", "5"), RunScreen),
    ],
)
async def test_what_follows_in_one_burst_is_for_the_screen_that_it_opens(
    keys: tuple[str, ...], stands: type[Screen[Any]]
) -> None:
    app = cockpit(engine=StandIn(failed(), *made.fleet()), service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, *keys)
        await until(pilot, lambda: isinstance(app.screen, stands))
        below = [type(each) for each in app.screen_stack[:-1]]
        assert below == [FleetScreen] * (stands is not FleetScreen)
        if isinstance(app.screen, AckScreen):
            assert app.focused is None  # the w was the fleet's, which has no such key


async def test_a_search_typed_before_the_run_stands_searches() -> None:
    app = cockpit(service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, "enter", "/", *"qr?e")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.screen.query_one(Prompt).value == "qr?e"


async def test_what_is_typed_before_the_entry_stands_waits_for_it() -> None:
    class SlowBooks(StandInBooks):
        async def open(self, report: Any, now: float) -> Any:
            await gate.wait()
            return await super().open(report, now)

    gate = asyncio.Event()
    app = cockpit(service=StandInService(), books=SlowBooks())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for key in "eqx":
            app.post_message(events.Key(key, key))
        app.post_message(events.Paste("one\ntwo"))
        await pilot.pause(0.7)
        assert isinstance(app.screen, EditorScreen) and app.is_running
        gate.set()
        await until(pilot, lambda: "qxone\ntwo" in app.screen.query_one(EntryArea).text)


async def test_an_editor_that_never_opens_is_left_at_once() -> None:
    class HungBooks(StandInBooks):
        async def open(self, report: Any, now: float) -> Any:
            await asyncio.Event().wait()

    app = cockpit(service=StandInService(), books=HungBooks())
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, "e", "escape", "?")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_a_pasted_block_is_undone_and_done_again() -> None:
    app = cockpit(service=StandInService(), books=StandInBooks())
    block = "\n".join(f"line {number}" for number in range(60))
    async with app.run_test(size=(120, 40)) as pilot:
        await burst(pilot, "e")
        area = app.screen.query_one(EntryArea)
        before = area.text
        app.post_message(events.Paste(block))
        await burst(pilot, "ctrl+z")
        assert area.text == before
        await burst(pilot, "ctrl+y")
        assert block in area.text


async def test_a_key_whose_work_hangs_does_not_hold_up_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = asyncio.Event()

    async def hang(*_: object) -> None:
        await gate.wait()

    monkeypatch.setattr(FleetScreen, "action_sort", hang)
    app = cockpit(service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for key in "sj?":
            app.post_message(events.Key(NAMES.get(key, key), key))
        heard = asyncio.Event()
        app.call_later(heard.set)
        await asyncio.wait_for(heard.wait(), 5)
        assert isinstance(app.screen, FleetScreen)
        gate.set()
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
