"""A person sees what an agent is about, and stops it with one key."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError, UnansweredError
from cockpit.model.acts import LATE, AgentAct, Stage, going_on
from cockpit.store.store import StoreError
from screens.acting.agents import agent_news, to_veto
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import cockpit, text_of
from tests.widgets import reports as made

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

    async def veto(self, run: str, by: str, reason: str = "") -> tuple[AgentAct, ...]:
        if self.no_veto is not None:
            raise self.no_veto
        self.vetoes.append((run, by))
        return self.found


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
