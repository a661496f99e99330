"""What the journal and the stores of launches become of a run's history (C-01, C-12, C-14)."""

from __future__ import annotations

from cockpit.model.history import FormerFailure, Launched
from cockpit.model.observed import Phase
from cockpit.store.outcomes import Stopped
from cockpit.watch.judging import case_of, judged
from cockpit.watch.runstate import RunState
from tests.rules.making import T0, job, log, run_spec, seen


def state(**more: object) -> RunState:
    over = job(Phase.FAILED, exit_code=143, started_at=T0, ended_at=T0 + 50)
    found = RunState(run_spec(), "/x#toy", facets=seen(T0 + 60, job=over, log=log("step 1 loss 1")))
    for name, value in more.items():
        setattr(found, name, value)
    return found


def titles(found: RunState) -> list[str]:
    return [alert.title for alert in judged(case_of(found, T0 + 60)).alerts if alert.id == "C-01"]


def test_a_stop_of_our_own_is_told_with_its_name() -> None:
    ours = Stopped(job_ids=("host:1",), by="bob", at=T0 + 40)
    assert titles(state(stops=(ours,))) == ["stopped by bob"]


def test_a_stop_of_another_job_or_of_a_former_one_is_not() -> None:
    other = Stopped(job_ids=("host:2",), by="bob", at=T0 + 40)
    former = Stopped(job_ids=("host:1",), by="bob", at=T0 - 400)
    assert titles(state(stops=(other, former))) == ["stopped by an unknown hand"]


def test_failures_and_the_last_launch_reach_the_rules() -> None:
    failure = FormerFailure(at=T0, job_id="i1", name="killed")
    launched = Launched(at=T0, job_id="host:1", launch_id="toy-i002")
    past = case_of(state(failures=(failure,), launched=launched), T0 + 60).history
    assert (past.former_failures, past.launched) == ((failure,), launched)
