"""What is selected is a run that stands on the screen, whatever comes, and keys act on it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.model.report import RunReport, Verdict
from screens.acting.plan import PlanScreen
from screens.fleet import FleetScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, app_of, cockpit, screen_of, text_of
from tests.widgets import reports as made

SIZES = ((80, 24), (120, 40), (200, 50), (60, 8))
VERDICTS = tuple(Verdict)
MOVES = ("j", "k", "l", "h", "G", "g", "pagedown", "pageup", "s", "escape", "t")
WORDS = ("critical", "finished", "run-a", "xyz")


def a_report(name: str, verdict: Verdict = Verdict.HEALTHY) -> RunReport:
    alerts = (made.alert("C-01"),) if verdict is Verdict.CRITICAL else ()
    report = made.report(name, verdict, alerts)
    spec = report.spec.model_copy(update={"resubmit": ("python", "train.py")})
    return report.model_copy(update={"spec": spec})


def marked(shown: str, names: list[str]) -> list[str]:
    """Return the runs whose line on the screen has the pointer."""
    lines = shown.replace("▌", "▸").splitlines()
    said = [piece.split()[1:2] for line in lines for piece in line.split("▸")[1:]]
    return [each for found in said for each in found if each in names]


async def selected(pilot: Pilot[Any]) -> str | None:
    """Return the selected run, which is the one that is marked."""
    app = app_of(pilot)
    await pilot.pause()
    fleet = screen_of(app, FleetScreen)
    names = [each.name for each in fleet.shown]
    seen = marked(text_of(app), [each.name for each in app.reports])
    assert seen == ([fleet.selected] if names else []), text_of(app)
    assert (fleet.selected in names) if names else fleet.selected is None
    return fleet.selected


class Chance:
    """Does one thing after the other, as it comes."""

    def __init__(self, seed: int, engine: StandIn) -> None:
        self.dice = random.Random(seed)
        self.engine = engine
        self.born = 0

    async def something(self, pilot: Pilot[Any]) -> None:
        what = self.dice.choice((self.press, self.press, self.news, self.file, self.ask, self.size))
        await what(pilot)

    async def press(self, pilot: Pilot[Any]) -> None:
        await pilot.press(self.dice.choice(MOVES))

    async def news(self, pilot: Pilot[Any]) -> None:
        if self.engine.runs:
            name = self.dice.choice(self.engine.runs).name
            self.engine.tell(a_report(name, self.dice.choice(VERDICTS)))
        if self.dice.random() < 0.5:
            app_of(pilot)._take_all()

    async def file(self, pilot: Pilot[Any]) -> None:
        """A run is taken out of the run file, or added to it."""
        if self.engine.runs and self.dice.random() < 0.5:
            self.engine.runs.remove(self.dice.choice(self.engine.runs))
        else:
            self.born += 1
            self.engine.runs.append(a_report(f"new-{self.born}"))
        app_of(pilot)._take_all()

    async def ask(self, pilot: Pilot[Any]) -> None:
        await pilot.press("/", *self.dice.choice(WORDS), "enter")

    async def size(self, pilot: Pilot[Any]) -> None:
        await pilot.resize_terminal(*self.dice.choice(SIZES))


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_comes_a_run_on_the_screen_is_selected_and_acted_on(seed: int) -> None:
    engine = StandIn(*(a_report(f"run-{letter}") for letter in "abcdefg"))
    service = StandInService()
    app = cockpit(engine=engine, service=service)
    chance = Chance(seed, engine)
    async with app.run_test(size=(120, 40)) as pilot:
        for turn in range(24):
            await chance.something(pilot)
            name = await selected(pilot)
            if turn % 8 == 0 and name is not None:
                await pilot.press(chance.dice.choice("rZ"))
                await until(pilot, lambda: bool(service.planned))
                assert service.planned.pop()[0].run == name
                await pilot.press("escape")
                assert await selected(pilot) == name


async def test_after_a_relaunch_healed_it_the_keys_go_on_from_the_run() -> None:
    engine = StandIn(a_report("run-a"), a_report("run-b"), a_report("run-c", Verdict.CRITICAL))
    app = cockpit(engine=engine, service=StandInService())
    async with app.run_test(size=(80, 24)) as pilot:
        assert await selected(pilot) == "run-c"
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen))
        engine.tell(a_report("run-c"))
        app.show_news()
        await pilot.pause()
        await pilot.press("escape")
        assert await selected(pilot) == "run-c"
        await pilot.press("j")
        assert await selected(pilot) == "run-a"


async def test_a_filter_selects_what_it_shows_and_lets_go_again() -> None:
    engine = StandIn(a_report("run-a"), a_report("run-b", Verdict.FINISHED), a_report("run-c"))
    service = StandInService()
    app = cockpit(engine=engine, service=service)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("G")
        assert await selected(pilot) == "run-c"
        await pilot.press("/", *"finished", "enter")
        assert await selected(pilot) == "run-b"
        await pilot.press("escape")
        assert await selected(pilot) == "run-c"
        await pilot.press("/", *"finished", "enter", "Z")
        await until(pilot, lambda: bool(service.planned))
        assert service.planned[0][0].run == "run-b"
        await pilot.press("escape", "escape")
        assert await selected(pilot) == "run-b"


async def test_a_filter_that_finds_nothing_says_so_and_nothing_can_be_done_to_nothing() -> None:
    service = StandInService()
    app = cockpit(engine=StandIn(a_report("run-a"), a_report("run-b")), service=service)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "/", *"xyz", "enter")
        shown = text_of(app)
        assert 'no run matches "xyz"' in shown
        assert "esc shows all 2 runs" in shown
        await pilot.press("x", "Z", "enter", "p")
        assert not service.planned and isinstance(app.screen, FleetScreen)
        assert "no run is selected" in text_of(app)
        await pilot.press("escape")
        assert await selected(pilot) == "run-b"


async def test_the_fleet_selects_the_run_that_one_comes_back_from() -> None:
    app = cockpit(engine=StandIn(a_report("run-a"), a_report("run-b"), a_report("run-c")))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "]", "]")
        assert screen_of(app, RunScreen).selected == "run-c"
        await pilot.press("escape")
        assert await selected(pilot) == "run-c"


async def test_the_palette_acts_on_the_run_it_names_whatever_comes_first_by_then() -> None:
    engine = StandIn(a_report("run-a"), a_report("run-b"))
    service = StandInService()
    app = cockpit(engine=engine, service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(":")
        assert "run-a · " in text_of(app)
        engine.tell(a_report("run-b", Verdict.CRITICAL))
        app.show_news()
        await pilot.pause()
        await pilot.press(*"relaunch", "enter")
        await until(pilot, lambda: bool(service.planned))
        assert service.planned[0][0].run == "run-a"
