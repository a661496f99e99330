from __future__ import annotations

from cockpit.model.alert import Severity
from cockpit.model.history import PhaseMark
from cockpit.model.observed import Phase
from cockpit.rules.unknown import state_unknown
from tests.rules.making import CADENCE, T0, blind, history, job, log, run_spec, tracker

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
    assert told[2].startswith("training steps: still since ")
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
