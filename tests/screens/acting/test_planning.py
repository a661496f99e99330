"""A plan that stood open when the cockpit ended is told of by the next one, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.actions.core.open_plans import OpenPlans
from cockpit.model.plan import Outcome
from screens.acting.form import FormScreen
from screens.acting.plan import PlanScreen
from screens.fleet import FleetScreen
from tests.screens.acting.stand_in_service import StandInService, entry
from tests.screens.acting.test_plan import confirm, failed, until
from tests.screens.stand_in import StandIn, app_of, cockpit, text_of
from tests.widgets import reports as made

SAID = "a relaunch of run-failed was being planned, nothing was done (at 08:52)"
HUNG_UP, LEFT = 129, 0


def notes(folder: Path) -> list[Path]:
    return list(folder.rglob("*.plan"))


async def session(
    folder: Path, keys: Sequence[str], code: int, service: StandInService | None = None
) -> None:
    """Sit at a cockpit, press keys, and leave it with a plan or a form open."""
    plans = OpenPlans(folder, "/data/cockpit.toml")
    app = cockpit(engine=StandIn(failed()), service=service or StandInService(), plans=plans)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.screen, PlanScreen | FormScreen))
        await until(pilot, lambda: bool(notes(folder)))
        app.exit(return_code=code)
    await app.stop_work()
    for held in app.actions.planning._held.values():
        held.release()  # the kernel does it when the process ends


async def next_start(folder: Path, **options: Any) -> list[str]:
    """Return what the next cockpit says of it, by pressing nothing."""
    service = options.pop("service", None) or StandInService()
    plans = OpenPlans(folder, "/data/cockpit.toml")
    app = cockpit(engine=StandIn(failed()), service=service, plans=plans, **options)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.8)
        assert isinstance(app.screen, FleetScreen)
        said = [words for words, _ in app.actions.news]
        assert all(words[:40] in text_of(app) for words in said)
        await seen(pilot)
    return said


async def seen(pilot: Pilot[Any]) -> None:
    await pilot.press("escape")
    assert app_of(pilot).actions.news == []


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("screens.acting.planning.day_time", lambda at, now: "08:52")


async def test_a_dropped_line_loses_no_plan_without_a_word(tmp_path: Path) -> None:
    await session(tmp_path, ["r"], HUNG_UP)
    assert await next_start(tmp_path, read_only=True) == []
    assert await next_start(tmp_path) == [f"{SAID} · esc seen"]
    assert await next_start(tmp_path) == []


async def test_a_form_counts_and_whoever_leaves_knows(tmp_path: Path) -> None:
    await session(tmp_path, ["H"], HUNG_UP)
    (said,) = await next_start(tmp_path)
    assert said.startswith("a handoff of run-failed was being planned")
    await session(tmp_path, ["r"], LEFT)
    assert await next_start(tmp_path) == []


async def test_what_the_journal_knows_is_for_the_journal_to_tell(tmp_path: Path) -> None:
    await session(tmp_path, ["r"], HUNG_UP)
    service = StandInService()
    service.entries = {
        "run-failed": (entry("run-failed", 2, Outcome.DONE, begun_at=made.NOW + 5.0),)
    }
    assert await next_start(tmp_path, service=service) == []


async def test_a_plan_that_was_left_or_done_leaves_no_note(tmp_path: Path) -> None:
    plans = OpenPlans(tmp_path, "/data/cockpit.toml")
    service = StandInService()
    app = cockpit(engine=StandIn(failed()), service=service, plans=plans)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: bool(notes(tmp_path)))
        await pilot.press("escape")
        await until(pilot, lambda: not notes(tmp_path))
        await pilot.press("r")
        await until(pilot, lambda: "Type  " in text_of(app))
        await until(pilot, lambda: bool(notes(tmp_path)))
        await pilot.pause(0.4)
        await confirm(pilot)
        await until(pilot, lambda: bool(service.acted) and not notes(tmp_path))
