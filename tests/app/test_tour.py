"""The first tour of the demo: a person follows it, in order or not."""

from __future__ import annotations

from cockpit.app.tour import STOPS, Tour
from cockpit.model.report import Verdict
from screens.hotkeys import BY_ID
from tests.screens.stand_in import cockpit, text_of
from tests.widgets import reports as made


async def test_each_key_leads_to_the_next_one() -> None:
    run = made.report("run-a", Verdict.CRITICAL, (made.alert("C-01"),))
    app = cockpit(run)
    app.tour = Tour()
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        said: list[str] = []
        for stop in STOPS:
            said += [
                line for line in text_of(app).splitlines() if f"tour {len(said) + 1}/5" in line
            ]
            assert stop.text in said[-1]
            await pilot.press(BY_ID[stop.action].keys.split()[0])
            await pilot.pause()
            if stop.action in ("relaunch", "help", "palette"):
                await pilot.press("escape")
                await pilot.pause()
        assert len(said) == len(STOPS) and "tour" not in text_of(app)


async def test_a_key_that_was_pressed_before_its_turn_is_not_asked_for() -> None:
    app = cockpit(made.report("run-a"))
    app.tour = Tour()
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        await pilot.press("question_mark", "escape")
        await pilot.press("enter")
        await pilot.pause()
        assert "tour 3/5: enter goes to the log lines" in text_of(app)


async def test_only_the_demo_has_a_tour() -> None:
    app = cockpit(made.report("run-a"))
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        assert "tour" not in text_of(app)
