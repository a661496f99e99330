"""What is kept of agents: within bounds, and one act waits on a run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.acts import PLANNING_FOR, Stage
from cockpit.store.launches import HOUR, MOST, PLANS, AgentRecords, Call, OtherWaitsError
from cockpit.store.store import Store

AGENT = "agent:sonnet"


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    store, now = Store(tmp_path / "store.sqlite"), 1_000_000.0
    kept = AgentRecords(store)
    with store.writing():
        for number in range(MOST + 20):
            kept.planned("file#toy", AGENT, "relaunch", f"{number:012}", now + number)
    assert len(kept.acts("file#toy")) == MOST
    for _ in range(3):
        kept.planned("file#toy", AGENT, "relaunch", "0" * 12, now + 9000)
    assert kept.acts("file#toy")[-1].times == 3
    kept.called([Call("file#toy", AGENT, "log", "ok", now + second) for second in range(30)])
    assert [(each.tool, each.count) for each in kept.calls("file#toy")] == [("log", 30)]
    kept.called(
        [Call("file#toy", AGENT, "log", "ok", now + 3600.0 * hour) for hour in range(MOST + 9)]
    )
    assert len(kept.calls("file#toy")) <= MOST


def test_no_number_of_plans_wears_off_a_veto(tmp_path: Path) -> None:
    store, now = Store(tmp_path / "store.sqlite"), 1_000_000.0
    kept = AgentRecords(store)
    kept.planned("file#toy", AGENT, "relaunch", "0" * 12, now)
    kept.stop("file#toy", "ada", "", now, Stage.VETOED)
    with store.writing():
        for number in range(MOST + 20):
            kept.planned("file#toy", AGENT, "log", f"{number:012}", now + number)
    assert kept.vetoed("file#toy", "relaunch", now + MOST) is not None
    assert len(kept.acts("file#toy")) == MOST + 1


@pytest.mark.parametrize("teller", [AGENT, "agent:rival"])
def test_what_only_tells_people_is_held_up_by_no_grace_and_holds_up_none(
    tmp_path: Path, teller: str
) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    tells = kept.wait("file#toy", AGENT, "log", "1" * 12, now, now)
    waits = kept.wait("file#toy", AGENT, "relaunch", "0" * 12, now, now + 600)
    told = kept.wait("file#toy", teller, "escalate", "2" * 12, now + 1, now + 1)
    assert kept.begin(told.number, now + 1) is kept.begin(tells.number, now + 1) is None
    with pytest.raises(OtherWaitsError) as other:
        kept.wait("file#toy", teller, "stop", "3" * 12, now + 2, now + 600)
    assert other.value.act == waits


@pytest.mark.parametrize("stage", [Stage.VETOED, Stage.TAKEN_OVER, Stage.WITHDRAWN, Stage.ENDED])
def test_how_an_act_ended_is_told_for_a_while_whatever_is_planned_after_it(
    tmp_path: Path, stage: Stage
) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    act = kept.wait("file#toy", AGENT, "relaunch", "0" * 12, now, now + 60)
    if stage in (Stage.VETOED, Stage.TAKEN_OVER):
        kept.stop("file#toy", "ada", "", now + 5, stage)
    else:
        kept.end(act.number, stage, "", now + 5)
    for number in range(1, PLANS + 9):
        kept.planned("file#toy", AGENT, "log", f"{number:012}", now + 6)
    told = kept.current("file#toy", now + 7)
    assert [each.stage for each in told] == [Stage.PLANNED] * PLANS + [stage]
    assert told[0].plan_id == f"{PLANS + 8:012}"
    assert kept.current("file#toy", now + 2 * HOUR) == ()


def test_an_agent_that_left_is_planning_nothing_any_more(tmp_path: Path) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    for agent, plan_id in ((AGENT, "0" * 12), (AGENT, "1" * 12), ("agent:rival", "0" * 12)):
        kept.planned("file#toy", agent, "relaunch", plan_id, now)
    kept.planned("file#toy", AGENT, "relaunch", "2" * 12, now - PLANNING_FOR - 1)
    kept.wait("file#toy", AGENT, "relaunch", "1" * 12, now, now + 60)
    kept.left(AGENT, [f"{number}" * 12 for number in range(3)], now + 1)
    told = [(act.agent, act.stage) for act in kept.acts("file#toy")]
    assert told == [
        (AGENT, Stage.WITHDRAWN), (AGENT, Stage.WAITING), ("agent:rival", Stage.PLANNED),
        (AGENT, Stage.PLANNED),
    ]  # fmt: skip
