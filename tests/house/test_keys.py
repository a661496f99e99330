"""Every key of the table does what it says where it says so: each is pressed."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.app.application import CockpitApp
from screens.acting.editor import EditorScreen
from screens.acting.form import AckScreen, FormScreen
from screens.acting.journal import JournalScreen, PointsScreen
from screens.acting.plan import PlanScreen
from screens.copying import CopyScreen
from screens.dialog import LeavingScreen
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.hotkeys import ACTIONS, WHERES, Hotkey
from screens.past import HappenedScreen, PastScreen
from screens.run import RunScreen
from screens.sheet import HandoffPage
from screens.welcome import WelcomeScreen
from tests.screens.acting.stand_in_service import BLOCKED, StandInService, draft
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, cockpit, text_of
from tests.screens.stand_in_books import StandInBooks

Way = tuple[type[object], Callable[[Pilot[Any]], Awaitable[object]]]


def pressed(*keys: str) -> Callable[[Pilot[Any]], Awaitable[object]]:
    return lambda pilot: pilot.press(*keys)


async def a_blocked_plan(pilot: Pilot[Any]) -> None:
    """Without a line to type in, which has keys of its own for editing."""
    await pilot.press("r")
    await until(pilot, lambda: "two live jobs" in text_of(pilot.app))


async def leaving(pilot: Pilot[Any]) -> None:
    await pilot.app.push_screen(LeavingScreen(["relaunch run-failed"]))


WAYS: dict[str, Way] = {
    "everywhere": (FleetScreen, pressed()),
    "fleet": (FleetScreen, pressed()),
    "act": (FleetScreen, pressed()),
    "run": (RunScreen, pressed("enter", "4")),
    "log": (RunScreen, pressed("enter", "1")),
    "charts": (RunScreen, pressed("enter", "2")),
    "plan": (PlanScreen, a_blocked_plan),
    "form": (FormScreen, pressed("H")),
    "ack": (AckScreen, pressed("A")),
    "entry": (EditorScreen, pressed("e")),
    "page": (HandoffPage, pressed("p")),
    "points": (PointsScreen, pressed("W")),
    "journal": (JournalScreen, pressed("J")),
    "leaving": (LeavingScreen, leaving),
    "past": (PastScreen, pressed("enter", "P")),
    "happened": (HappenedScreen, pressed("T")),
    "copying": (CopyScreen, pressed("y")),
    "list": (JournalScreen, pressed("J")),
    "help": (HelpScreen, pressed("?")),
    "welcome": (WelcomeScreen, pressed()),
}
"""How a person comes to where a scope's keys work, and the screen that stands there."""


def app_for(where: str) -> CockpitApp:
    if where == "welcome":
        return CockpitApp(None, None)
    service = StandInService(lambda request: draft(request.run, request.action, checks=(BLOCKED,)))
    return cockpit(engine=StandIn(failed()), service=service, books=StandInBooks())


Heard = list[tuple[str, tuple[object, ...]]]


def asked_for(key: Hotkey) -> tuple[str, tuple[object, ...]]:
    """The method that a key calls, and with what: ``row(1)``."""
    call = ast.parse(key.run, mode="eval").body
    if isinstance(call, ast.Name):
        return call.id, ()
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return call.func.id, tuple(ast.literal_eval(each) for each in call.args)


def listening(holder: type[object], name: str, heard: Heard, patch: pytest.MonkeyPatch) -> None:
    """Let a key's method tell that it was called, instead of doing anything."""

    def tell(screen: object, *given: object) -> None:
        heard.append((name, given))

    assert callable(getattr(holder, f"action_{name}"))
    patch.setattr(holder, f"action_{name}", tell)


def test_every_scope_has_a_way_to_it() -> None:
    assert sorted(WAYS) == sorted(WHERES)


@pytest.mark.parametrize("where", WAYS)
async def test_each_key_of_a_scope_is_heard(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, come = WAYS[where]
    keys: list[tuple[Hotkey, str]] = [
        (each, key) for each in ACTIONS if each.where == where for key in each.keys.split()
    ]
    assert keys
    app = app_for(where)
    heard: Heard = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await come(pilot)
        await until(pilot, lambda: isinstance(app.screen, screen))
        await pilot.pause(0.4)
        holder = CockpitApp if where == "everywhere" else screen
        for name in {asked_for(each)[0] for each, _ in keys}:
            listening(holder, name, heard, monkeypatch)
        deaf = []
        for each, key in keys:
            heard.clear()
            await pilot.press(key)
            await pilot.pause()
            if heard != [asked_for(each)]:
                deaf.append((each.id, key, list(heard)))
        monkeypatch.undo()
        assert not deaf, deaf
