"""A fault closes one screen alone; a screen that hangs or was closed harms no other."""

from __future__ import annotations

import gc
import stat
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual._styles_cache import StylesCache
from textual.pilot import Pilot
from textual.widget import Widget

from cockpit.app import faults
from cockpit.app.application import CockpitApp
from cockpit.cli import main
from cockpit.config.file import state_dir
from cockpit.runtime import account
from cockpit.runtime.account import login_name
from screens import run as run_screen
from screens.acting import guarded
from screens.acting.form import FormScreen
from screens.acting.plan import PlanScreen
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.run import RunScreen
from tests.runtime.test_account import hanging_git
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, cockpit, screen_of, text_of
from tests.widgets import reports as made
from widgets.log_view import LogView
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


OPENED = 12


def held() -> Counter[str]:
    gc.collect()
    kinds = (StylesCache, Widget)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


async def test_a_closed_screen_leaves_nothing_that_was_painted() -> None:
    app = cockpit(*made.fleet())
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(OPENED):
            await pilot.press("enter", "2", "escape", "question_mark", "escape")
        after = held()
    assert after["RunScreen"] <= OPENED // 3, "timers hold the last ones for some seconds"
    painted = after.pop("StylesCache")
    assert painted <= after.total(), "what was painted outlives its widget"


async def test_an_empty_log_can_be_stepped_through() -> None:
    app = cockpit(*made.fleet())
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.press("enter", "1")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        view = screen.query_one(LogView)
        while view.held:
            view.held.pop()
        view.offsets.clear()
        view.wraps = True
        await pilot.press("j", "k", "pagedown", "g", "G", "j")
        assert app.is_running


FLEET = ("s", "p", "escape", "J", "escape", "x", "escape", "A", "escape", "H", "escape", "c")
RUN = ("enter", "enter", "/", "x", "enter", "n", "2", "3", "4", "5", "6", "J", "escape")


@pytest.fixture
def no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(account, "ANSWER", 0.2)
    hanging_git(tmp_path, monkeypatch)


@pytest.mark.usefixtures("no_git")
async def test_each_call_that_hangs_is_said_and_none_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung: set[str] = set()

    def hanging(name: str) -> Any:
        async def offload(*_: object, **__: object) -> None:
            hung.add(name)
            raise TimeoutError("no answer within 5 s")

        return offload

    assert run_screen.__name__ in sys.modules  # what is opened later is loaded, to be made to hang
    for name, module in list(sys.modules.items()):
        if name.startswith(("screens.", "cockpit.app.")) and hasattr(module, "offload"):
            monkeypatch.setattr(module, "offload", hanging(name))
    monkeypatch.setattr(guarded, "LOOK_FOR_INTERRUPTED", 0.01)
    log = tmp_path / "run.log"
    log.write_text("line\n")
    run = made.report("run-a", seen=made.facets(log=made.log(path=str(log), size=5)))
    records = run.spec.records.model_copy(update={"logbook": str(log)})
    spec = run.spec.model_copy(update={"records": records})
    engine = StandIn(run.model_copy(update={"spec": spec}))
    service = StandInService()
    app = cockpit(engine=engine, operator="", service=service, version=lambda: 1)
    app.file = app.file.model_copy(update={"path": str(tmp_path / "cockpit.toml")})
    said: list[str] = []
    monkeypatch.setattr(app, "warn", said.append)
    async with app.run_test(size=(200, 50)) as pilot:
        await until(pilot, lambda: bool(app.watch_state.operator))
        await pilot.press(*FLEET, *RUN)
        await until(pilot, lambda: "screens.acting.guarded" in hung)
        assert app.watch_state.operator == login_name()
        assert app.is_running
    assert "screens.log_reader" in hung
    assert any(line.startswith("git did not say who you are within 0.2 s") for line in said)
    assert not [line for line in said if "fault" in line]
    assert not (state_dir() / "crashes").exists()


@pytest.mark.usefixtures("no_git")
@pytest.mark.parametrize("verb", [("watch", "--once"), ("ack", "run-a", "C-05", "--reason", "x")])
def test_the_verbs_act_under_the_account_when_git_hangs(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[cockpit]\ncadence = "1s"\n[[run]]\nname = "run-a"\ntier = "ordinary"\n')
    main([*verb, "--config", str(config)])
    said = capsys.readouterr().err
    assert f"git did not say who you are within 0.2 s: you act as {login_name()}" in said
    assert "fault" not in said
