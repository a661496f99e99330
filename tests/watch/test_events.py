"""What has happened between two reports: each thing once, none that stayed as it was."""

from __future__ import annotations

from typing import Any

from cockpit.model.acts import AgentAct, Stage
from cockpit.model.alert import Acknowledgement, ClosedAlert, RowSpan
from cockpit.model.observed import Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.watch.reports import events
from tests.widgets import reports as made


def told(old: RunReport | None, new: RunReport) -> list[tuple[Any, ...]]:
    found = list(events(old, new))
    assert all(each["schema"] == 1 and each["run"] == new.name and each["at"] for each in found)
    known = ("schema", "run", "at", "title")
    return [tuple(value for key, value in each.items() if key not in known) for each in found]


def test_everything_is_new_at_first_and_then_nothing() -> None:
    report = made.report(alerts=(made.alert("C-05"),))
    first = told(None, report)
    assert [each[0] for each in first] == ["verdict", "job", "opened"]
    assert told(report, report) == []


def test_each_change_is_one_event() -> None:
    old = made.report(alerts=(made.alert("C-05"), made.alert("C-07")))
    taken = made.alert("C-07").model_copy(
        update={"acknowledged": Acknowledgement(by="ada", at=made.NOW)}
    )
    act = AgentAct(
        number=1, run="run-a", agent="agent:x", action="relaunch", plan_id="0", at=made.NOW,
        stage=Stage.WAITING, changed_at=made.NOW, until=made.NOW + 60,
    )  # fmt: skip
    job = made.job(Phase.FAILED)
    assert job.value is not None
    new = made.report(
        verdict=Verdict.CRITICAL, alerts=(taken, made.alert("C-01")), agents=(act,),
        seen=made.facets(job=job),
    )  # fmt: skip
    assert told(old, new) == [
        ("verdict", "healthy", "critical"),
        ("job", "failed", job.value.id, job.value.reason),
        ("opened", "C-01", "C-01", "alert"),
        ("closed", "C-05", "C-05", "alert"),
        ("acknowledged", "C-07", "C-07", "alert", "ada"),
        ("agent", "agent:x", "relaunch", "waiting", "2026-03-11T08:53:58.000Z"),
    ]
    begun = new.model_copy(update={"agents": (act.model_copy(update={"stage": Stage.BEGUN}),)})
    assert [each[3] for each in told(new, begun)] == ["begun"]
    vetoed = act.model_copy(update={"stage": Stage.VETOED, "by": "ada"})
    (last,) = told(new, new.model_copy(update={"agents": (vetoed,)}))
    assert last[1:] == ("agent:x", "relaunch", "vetoed", "2026-03-11T08:53:58.000Z", "ada")


def test_what_came_and_went_between_two_looks_is_told_once() -> None:
    """A NaN that was over at the next look would else leave no trace with whoever listens."""
    span = RowSpan(opened_step=10, closed_step=12, passed=True)
    spike = made.alert("C-11").model_copy(update={"span": span})
    seen_open = made.alert("C-10").model_copy(
        update={"span": span.model_copy(update={"passed": False})}
    )
    over = tuple(
        ClosedAlert(alert=each, closed_at=made.NOW, seen=False) for each in (spike, seen_open)
    )
    old, new = made.report(), made.report(closed=over)
    assert [each[:2] for each in told(old, new)] == [("opened", "C-11"), ("closed", "C-11")]
    assert told(new, new) == []
    assert "opened" not in [each[0] for each in told(None, new)], "what is over is no news then"
