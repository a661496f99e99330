"""The figures in a row of ``check`` are those of the present job, or unknown."""

from __future__ import annotations

from cockpit.model.observed import Phase, Row
from cockpit.model.report import RunReport
from cockpit.verbs.table import loss_text, rate_text
from tests.actions.contexts import report
from tests.rules.making import T0, job, log, run_spec, tracker
from widgets.painting import rows

NOW = T0 + 1000.0


def resumed(*logged: Row, tracked_at: float) -> RunReport:
    told = tracker(step=90, loss=2.08, throughput=9.46, last_step_at=tracked_at)
    now = job(Phase.RUNNING, started_at=T0 + 500)
    return report(run_spec(), now=NOW, job=now, tracker=told, log=log(rows=logged))


def painted(found: RunReport) -> tuple[str, str]:
    return rows.loss(found, NOW).plain, rows.throughput(found, NOW).plain


def test_a_former_job_s_loss_and_rate_are_not_shown_as_the_present_one_s() -> None:
    """After a resume, until the new job's first row has come."""
    found = resumed(tracked_at=T0 + 400)
    assert (loss_text(found), rate_text(found), *painted(found)) == ("?", "?", "?", "?")
    logged = resumed(Row(80, T0 + 390, 2.5), Row(180, T0 + 600, 0.1039), tracked_at=T0 + 400)
    assert (loss_text(logged), painted(logged)[0]) == ("0.104", "0.104")
    old = resumed(Row(80, T0 + 390, 2.5), tracked_at=T0 + 400)
    assert (loss_text(old), painted(old)[0]) == ("?", "?")


def test_the_present_job_s_own_are() -> None:
    found = resumed(tracked_at=T0 + 600)
    assert loss_text(found) == painted(found)[0] == "2.080"
    assert rate_text(found).startswith("9.46") and painted(found)[1].startswith("9.46")
