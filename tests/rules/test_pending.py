from __future__ import annotations

from cockpit.model.alert import Severity
from cockpit.model.observed import Phase, Tasks
from cockpit.rules.pending import pending_too_long
from tests.rules.making import T0, history, job, run_spec

HALF_HOUR = 1800.0


def test_pending_longer_than_half_an_hour_is_a_notice_that_touches_nothing() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="scale-up", tasks=Tasks(running=1, total=4))
    assert list(pending_too_long(run_spec(), history(T0 + HALF_HOUR, job=value))) == []
    (alert,) = pending_too_long(run_spec(), history(T0 + HALF_HOUR + 1, job=value))
    assert (alert.id, alert.severity, alert.since) == ("C-04", Severity.WARNING, T0)
    assert alert.evidence[0].text == "waiting, 1 of 4 tasks run: scale-up"
    assert "never touch the cluster" in alert.next_action


def test_what_can_never_start_is_said_at_once() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="DependencyNeverSatisfied")
    (alert,) = pending_too_long(run_spec(), history(T0 + 1, job=value))
    assert alert.title == "the job can never start"


def test_a_running_job_is_not_pending() -> None:
    assert list(pending_too_long(run_spec(), history(T0 + 9000, job=job()))) == []
