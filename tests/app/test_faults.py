"""A fault in one screen closes that screen, with one line; a second one soon after ends it all."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from cockpit.app import faults
from cockpit.app.application import CockpitApp
from screens.acting.form import FormScreen
from screens.acting.plan import PlanScreen
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, cockpit, screen_of, text_of
from widgets.run_header import RunHeader


class OwnError(Exception):
    """What the tests throw."""


def fail(*_: object, **__: object) -> None:
    raise OwnError("a fault beside a secret")


@asynccontextmanager
async def failing(app: CockpitApp, contained: int) -> AsyncIterator[Pilot[Any]]:
    """Drive an app in which that many faults are kept: a pilot would raise the first at its end."""
    kept: list[BaseException] = []
    keep = app._faults._keep

    def keeping(error: BaseException) -> str:
        kept.append(error)
        return keep(error)

    app._faults._keep = keeping
    async with app.run_test(size=(160, 40)) as pilot:
        try:
            await pilot.pause()
            yield pilot
            assert isinstance(kept[0], OwnError)  # others may follow from it
            assert sum(isinstance(each, OwnError) for each in kept) == contained
        finally:
            app._exception = None


def on(app: CockpitApp, screen: type[object]) -> Callable[[], bool]:
    return lambda: isinstance(app.screen, screen) and app.screen.is_mounted


async def test_a_fault_in_a_key_closes_its_screen_with_a_line(
    monkeypatch: pytest.MonkeyPatch, _own_home: Path
) -> None:
    app = cockpit()
    async with failing(app, 1) as pilot:
        await pilot.press("enter")
        await until(pilot, on(app, RunScreen))
        with monkeypatch.context() as patch:
            patch.setattr(RunScreen, "action_next_tab", fail)
            for key in ("tab", "j", "j"):
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await until(pilot, on(app, FleetScreen))
        await until(pilot, lambda: "the run screen was closed: an internal" in text_of(app))
        assert "OwnError" in text_of(app)
        (details,) = (_own_home / "state" / "cockpit" / "crashes").iterdir()
        assert stat.S_IMODE(details.stat().st_mode) == 0o600
        assert "in fail" in details.read_text()
        await pilot.press("enter")
        await until(pilot, on(app, RunScreen))


@pytest.mark.parametrize("where", ["compose", "on_mount", "show"])
async def test_a_screen_that_cannot_be_made_is_closed(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cockpit()
    async with failing(app, 1) as pilot:
        with monkeypatch.context() as patch:
            patch.setattr(RunScreen, where, fail)
            await pilot.press("enter")
            await until(pilot, lambda: "the run screen was closed" in text_of(app))
        assert isinstance(app.screen, FleetScreen)
        await pilot.press("question_mark")
        await until(pilot, on(app, HelpScreen))


async def test_a_fault_in_a_widget_closes_the_screen_it_stands_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = cockpit()
    async with failing(app, 1) as pilot:
        await pilot.press("enter")
        await until(pilot, on(app, RunScreen))
        with monkeypatch.context() as patch:
            patch.setattr(RunHeader, "render_line", fail)
            app.screen.query_one(RunHeader).refresh()
            await until(pilot, on(app, FleetScreen))
        await until(pilot, lambda: "the run screen was closed" in text_of(app))


async def test_the_fleet_is_made_anew_and_what_stands_over_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = StandInService()
    app = cockpit(engine=StandIn(failed()), service=service)
    async with failing(app, 1) as pilot:
        first = screen_of(app, FleetScreen)
        await pilot.press("H")
        await until(pilot, on(app, FormScreen))
        monkeypatch.setattr(first, "show_keys", fail)
        app._show()
        await until(pilot, lambda: app.screen_stack[0] is not first)
        assert isinstance(app.screen, FormScreen)
        await pilot.press("escape")
        await until(pilot, on(app, FleetScreen))
        await until(pilot, lambda: "the fleet screen was rebuilt" in text_of(app))
        assert app.actions._typed  # the form's answer was heard
        await pilot.press("r")
        await until(pilot, on(app, PlanScreen))


async def test_a_fault_of_the_app_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    app = cockpit()
    async with failing(app, 1) as pilot:
        app.call_later(fail)
        await until(pilot, lambda: "an internal error: OwnError" in text_of(app))
        await pilot.press("enter")
        await until(pilot, on(app, RunScreen))


@pytest.mark.parametrize(("apart", "ends"), [(1.0, True), (faults.MOMENT + 1.0, False)])
async def test_a_second_fault_within_a_moment_ends_it(
    apart: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cockpit()
    at = [100.0]
    app._faults._clock = lambda: at[0]
    monkeypatch.setattr(RunScreen, "action_next_tab", fail)
    async with failing(app, 1 + (not ends)) as pilot:
        for _ in range(2):
            await pilot.press("enter")
            await until(pilot, on(app, RunScreen))
            app.post_message(events.Key("tab", None))
            await until(pilot, lambda: on(app, FleetScreen)() or app.crash_line is not None)
            at[0] += apart
        assert (app.crash_line is not None) == ends
