"""What a report tells of the present job, wherever it is written down."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from cockpit.actions.telling.handoff import page
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.jobs import Stopped
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import RunReport, phase_text, present_loss
from cockpit.notify.due import Due, message_of
from cockpit.records.issue.service import new_critical, state_of
from cockpit.records.logbook.entry_text import prefill
from cockpit.watch.headless import _last_signal
from tests.widgets import reports as made
from tests.widgets.reports import NOW

LOST = Problem(kind=ErrorKind.TIMEOUT, message="no answer")
SEEN = "2026-03-11 07:52 UTC"


def job(phase: Phase, *, answers: bool = True, **more: object) -> Facet[JobValue]:
    value = JobValue(id="17", state=phase.value, phase=phase)
    error = None if answers else LOST
    return Facet[JobValue](
        value=value.model_copy(update=more), source="job", observed_at=NOW - 3600, error=error
    )


@pytest.mark.parametrize(
    ("facet", "said"),
    [
        (job(Phase.RUNNING), "running"),
        (job(Phase.RUNNING, stopped=Stopped(pid=17, since=NOW)), "stopped"),
        (job(Phase.RUNNING, answers=False), f"unknown (was running {SEEN})"),
        (job(Phase.FAILED, answers=False), "failed"),
        (job(Phase.UNKNOWN, answers=False), "unknown"),
        (Facet[JobValue](source="job", error=LOST), "unknown"),
        (
            job(Phase.FAILED, answers=False).model_copy(update={"remembered": True}),
            f"unknown (was failed {SEEN})",
        ),
    ],
)
def test_a_job_that_gives_no_answer_is_not_said_to_live(facet: Facet[JobValue], said: str) -> None:
    assert phase_text(facet) == said


def sick() -> RunReport:
    """A run whose job answers no more, whose loss is a zero for NaN, sick for longer than read."""
    report = made.failed()
    tracker = report.facets.tracker
    assert tracker.value is not None
    masked = tracker.value.model_copy(update={"loss": 0.0, "grad_norm": math.nan})
    facets = report.facets.model_copy(
        update={
            "job": job(Phase.RUNNING, answers=False),
            "tracker": tracker.model_copy(update={"value": masked}),
        }
    )
    worst = report.alerts[0].model_copy(update={"since_or_before": True})
    return report.model_copy(update={"facets": facets, "alerts": (worst,)})


def message(report: RunReport) -> str:
    alert = report.alerts[0]
    return message_of(Due(report, alert, "open", alert.key, 0.0), None).body


RECORDS: dict[str, Callable[[RunReport], str]] = {
    "message": message,
    "state file": _last_signal,
    "issue": state_of,
    "critical": lambda report: new_critical(report.spec, report.alerts[0]),
    "log entry": lambda report: str(prefill(report, "check", NOW)),
    "handoff": lambda report: page(report, [], NOW, of="ada", to="bob", note=""),
}


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_written_down_says_what_is_not_known(record: str) -> None:
    report = sick()
    said = RECORDS[record](report)
    assert math.isnan(present_loss(report)[1] or 0.0)
    if record in ("message", "state file", "issue"):
        assert f"unknown (was running {SEEN})" in said
    if record in ("issue", "log entry", "handoff"):
        assert "NaN" in said and "loss 0" not in said
    if record == "handoff":
        assert f"running, id 17, seen {SEEN}; unknown since then (no answer)" in said
    if record in ("message", "critical", "log entry", "handoff"):
        assert " or before" in said
