"""Actions under way: open plans of the last session, and agents that are stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.actions.core.action import RefuseError, UnansweredError
from cockpit.actions.core.agents import Vetoed
from cockpit.actions.core.open_plans import OpenPlans
from cockpit.model.acts import LATE, AgentAct, Stage, going_on
from cockpit.model.plan import Outcome
from cockpit.model.standing import StandingOrder, StandingRelaunch
from cockpit.store.store import StoreError
from screens.acting.form import FormScreen
from screens.acting.plan import PlanScreen
from screens.acting.running import agent_news, to_veto
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
    monkeypatch.setattr("screens.acting.running.day_time", lambda at, now: "08:52")


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


WAITS = "V vetoes: agent:sonnet will relaunch run-a at 08:53:58"


def act(stage: Stage = Stage.WAITING, **changes: Any) -> AgentAct:
    fields = {
        "number": 1, "run": "run-a", "agent": "agent:sonnet", "action": "relaunch",
        "plan_id": "0", "at": made.NOW, "stage": stage, "changed_at": made.NOW,
        "until": made.NOW + 60,
    }  # fmt: skip
    return AgentAct.model_validate(fields | changes)


class Vetoing(StandInService):
    def __init__(self, *found: AgentAct, trouble: Exception | None = None) -> None:
        super().__init__()
        self.found = found
        self.vetoes: list[tuple[str, str]] = []
        self.no_veto = trouble
        self.order: StandingOrder | None = None

    async def veto(self, run: str, by: str, reason: str = "") -> Vetoed:
        if self.no_veto is not None:
            raise self.no_veto
        self.vetoes.append((run, by))
        return Vetoed(self.found, self.order)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_it_stands_on_the_fleet_and_on_the_run_and_one_key_stops_it(
    size: tuple[int, int],
) -> None:
    service = Vetoing(act(Stage.VETOED))
    app = cockpit(made.report("run-a", agents=(act(),)), service=service)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: WAITS in text_of(app))
        await pilot.press("enter")
        await until(pilot, lambda: "V vetoes: agent:sonnet" in text_of(app))
        await pilot.press("V")
        await until(pilot, lambda: "vetoed, and held off for an hour" in text_of(app))
    assert service.vetoes == [("run-a", "ada")]


@pytest.mark.parametrize(
    ("service", "said"),
    [
        (Vetoing(), "no agent is waiting to act on run-a"),
        (Vetoing(trouble=StoreError("the store is locked")), "not vetoed: the store is locked"),
        (Vetoing(trouble=UnansweredError("no answer")), "cannot tell whether it was vetoed"),
        (Vetoing(trouble=RefuseError("read-only")), "not vetoed: read-only"),
    ],
)
async def test_a_veto_that_stops_nothing_says_so(service: Vetoing, said: str) -> None:
    app = cockpit(made.report("run-a"), service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("V")
        await until(pilot, lambda: said in text_of(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_standing_order_is_in_sight_and_one_key_ends_it(size: tuple[int, int]) -> None:
    order = StandingOrder(
        entry=3, by="ada", at=made.NOW, until=made.NOW + 3600,
        terms=StandingRelaunch(classes=("preempted",)),
    )  # fmt: skip
    service = Vetoing()
    service.order = order
    app = cockpit(made.report("run-b"), made.report("run-a", standing=order), service=service)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "run-a: standing order of ada until" in text_of(app))
        await pilot.press("V")
        await until(pilot, lambda: "standing order of ada on run-a has ended" in text_of(app))
        await until(pilot, lambda: "orders on other machines end" in " ".join(text_of(app).split()))
    assert service.vetoes == [("run-a", "ada")]
    planning = made.report("run-b", agents=(act(Stage.PLANNED, until=None),))
    ordered = made.report("run-a", standing=order)
    assert to_veto([planning, ordered], made.NOW, "run-b") == ["run-b"]


async def test_the_key_means_the_one_run_on_which_an_agent_waits_whichever_is_selected() -> None:
    other, third = made.failed("run-b"), made.failed("run-c")
    service = Vetoing(act(Stage.VETOED))
    app = cockpit(made.report("run-a", agents=(act(),)), other, third, service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: WAITS in text_of(app))
        await pilot.press("V")
        await until(pilot, lambda: bool(service.vetoes))
    assert service.vetoes == [("run-a", "ada")]
    both = [made.report(name, agents=(act(run=name),)) for name in ("run-a", "run-b")]
    assert to_veto([*both, third], made.NOW, "run-c") == ["run-a", "run-b"]
    assert to_veto([*both, third], made.NOW, "run-b") == ["run-b"]
    assert to_veto([third], made.NOW, "run-c") == ["run-c"]
    assert to_veto([], made.NOW, None) == []


async def test_who_may_only_look_vetoes_nothing() -> None:
    service = Vetoing(act())
    app = cockpit(made.report("run-a", agents=(act(),)), service=service, read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("V")
        await until(pilot, lambda: "read-only: it offers no actions" in text_of(app))
        assert "not to be vetoed here: agent:sonnet will relaunch" in text_of(app)
    assert service.vetoes == []


def test_what_is_over_is_told_no_more() -> None:
    now = made.NOW
    assert agent_news([made.report("run-a", agents=(act(),))], now, "V") == [(WAITS, True)]
    planned, begun = act(Stage.PLANNED, until=None), act(Stage.BEGUN)
    assert going_on([planned, act(), begun], now, "V vetoes") == [
        WAITS,
        "agent:sonnet is planning relaunch run-a (plan made 08:52:58)",
        "agent:sonnet began relaunch run-a at 08:52:58",
    ]
    later = now + 60 + LATE + 1
    assert going_on([act()], later, "V vetoes") == []
    assert going_on([planned, begun], now + 3600, "V vetoes") == []
    for stage in (Stage.ENDED, Stage.VETOED, Stage.TAKEN_OVER, Stage.WITHDRAWN, Stage.REFUSED):
        assert going_on([act(stage)], now, "V vetoes") == []
