from __future__ import annotations

from cockpit.model.alert import Severity
from cockpit.model.facet import ErrorKind, Facet, Problem, known
from cockpit.model.history import PhaseMark
from cockpit.model.observed import UNCLEAR, JobValue, Phase, Tasks
from cockpit.rules.jobs.jobstate import partial_since, pending_too_long, state_unknown
from tests.rules.making import CADENCE, T0, blind, history, job, log, run_spec, tracker

HALF_HOUR = 1800.0
LATE = T0 + 2 * CADENCE + 1


def test_a_query_that_fails_for_two_cadences_shows_the_other_facets() -> None:
    past = history(
        LATE, job=blind(), log=log("x", mtime=LATE - 1), tracker=tracker(last_step_at=T0 - 900)
    )
    (alert,) = state_unknown(run_spec(), past)
    assert (alert.id, alert.severity, alert.since) == ("C-02", Severity.WARNING, T0)
    told = [line.text for line in alert.evidence]
    assert told[0] == "no answer within 5 s"
    assert told[1] == "log: moving"
    assert told[2].startswith("training steps: no change since ")
    assert told[3] == "checkpoints: unknown"


def test_two_cadences_are_patience() -> None:
    assert list(state_unknown(run_spec(), history(T0 + 2 * CADENCE, job=blind()))) == []


def test_a_state_that_is_not_in_the_table_is_unknown() -> None:
    marks = (PhaseMark(at=T0, phase=Phase.UNKNOWN),)
    value = job(Phase.UNKNOWN, state="REVOKED")
    (alert,) = state_unknown(run_spec(), history(LATE, job=value, phases=marks))
    assert alert.evidence[0].text == 'state "REVOKED"'


def test_a_run_without_a_job_has_no_unknown_state() -> None:
    assert list(state_unknown(run_spec(job=None), history(LATE))) == []


def test_pending_longer_than_half_an_hour_is_a_notice_that_touches_nothing() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="scale-up", tasks=Tasks(running=1, total=4))
    assert list(pending_too_long(run_spec(), history(T0 + HALF_HOUR, job=value))) == []
    (alert,) = pending_too_long(run_spec(), history(T0 + HALF_HOUR + 1, job=value))
    assert (alert.id, alert.severity, alert.since) == ("C-04", Severity.WARNING, T0)
    assert alert.evidence[0].text == "waiting, 1 of 4 tasks running: scale-up"
    assert "do not touch the cluster" in alert.next_action


def test_what_can_never_start_is_said_at_once() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="DependencyNeverSatisfied", never=True)
    (alert,) = pending_too_long(run_spec(), history(T0 + 1, job=value))
    assert alert.title == "Job can never start"


def test_a_job_is_late_by_its_schedulers_own_word() -> None:
    value = job(Phase.WAITING, pending_since=T0, expected_start=T0 + 7200)
    assert list(pending_too_long(run_spec(), history(T0 + 7200, job=value))) == []
    (alert,) = pending_too_long(run_spec(), history(T0 + 7201, job=value))
    assert "planned to start it at" in alert.evidence[0].text
    soon = job(Phase.WAITING, pending_since=T0, expected_start=T0 + 60)
    assert list(pending_too_long(run_spec(), history(T0 + HALF_HOUR, job=soon))) == []


def test_a_running_job_is_not_pending() -> None:
    assert list(pending_too_long(run_spec(), history(T0 + 9000, job=job()))) == []


def test_a_job_that_was_looked_at_and_not_recognised_is_said_at_once() -> None:
    value = job(Phase.UNKNOWN, state=UNCLEAR, reason="pid 7 lives, but nothing ties it to this run")
    facet: Facet[JobValue] = Facet(
        value=value,
        source="pid file",
        observed_at=T0,
        error=Problem(kind=ErrorKind.BAD_ANSWER, message=str(value.reason)),
        since=T0,
    )
    (alert,) = state_unknown(run_spec(), history(T0 + 1, job=facet))
    assert (alert.id, alert.severity) == ("C-02", Severity.WARNING)
    assert "nothing ties it" in alert.evidence[0].text and "pid file" in alert.next_action


def test_a_job_of_which_only_a_part_runs_for_long() -> None:
    def found(running: int, since: float | None, phase: Phase = Phase.RUNNING) -> list[str]:
        value = job(phase, tasks=Tasks(running=running, total=4))
        past = history(T0 + 3600, job=value).model_copy(update={"partial_since": since})
        return [each.title for each in pending_too_long(run_spec(), past)]

    assert found(2, T0 + 1799) == ["Job only partly running"]
    assert found(2, T0 + 1800) == []
    assert found(2, None) == [], "since when is not known"


def test_since_when_only_a_part_runs_is_what_looks_in_a_row_have_shown() -> None:
    since, former = None, None
    for at, running in ((1, 4), (2, 3), (3, 2), (4, 4), (5, 1)):
        seen = job(tasks=Tasks(running=running, total=4))
        since = partial_since(since, former, known(seen, "s", T0 + at))
        former = seen
        assert since == {1: None, 2: T0 + 2, 3: T0 + 2, 4: None, 5: T0 + 5}[at]
    assert partial_since(since, former, known(job(Phase.WAITING), "s", T0 + 6)) is None


def test_tasks_that_are_over_wait_for_no_place_and_another_job_begins_anew() -> None:
    most = job(tasks=Tasks(running=3, total=4, over=1))
    assert partial_since(None, None, known(most, "s", T0 + 1)) is None
    some = Tasks(running=2, total=4, over=1)
    assert partial_since(T0, most, known(job(tasks=some), "s", T0 + 1)) == T0
    other = job(id="host:2", started_at=T0 + 5, tasks=some)
    assert partial_since(T0, most, known(other, "s", T0 + 9)) == T0 + 9
