from __future__ import annotations

from typing import Any

from cockpit.model.alert import Severity
from cockpit.model.history import FormerFailure, History
from cockpit.model.observed import Phase, Triage
from cockpit.rules.jobs.restarts import (
    failure_of,
    left_behind,
    same_again,
    same_failure_again,
    sameness,
    signature,
    window,
)
from tests.rules.making import T0, history, job, log, run_spec, tracker

BOOM = (
    "step 10 loss 2.3",
    "Traceback (most recent call last):",
    '  File "/home/a/train.py", line 3, in <module>',
    "ValueError: bad shape (3, 4)",
)


def failed(*lines: str, launch: str = "toy-i002", **more: Any) -> History:
    value = job(Phase.FAILED, exit_code=1, ended_at=T0 + 77, launch_id=launch)
    return history(T0 + 90, **{"job": value, "log": log(*(lines or BOOM)), **more})


def former(**more: Any) -> FormerFailure:
    plain: dict[str, Any] = {"at": T0, "job_id": "toy-i001", "name": "complex_code_bug"}
    return FormerFailure(**{**plain, **more})


def triage_of(text: str) -> Triage:
    return Triage(name="x", action="escalate", confidence="sure",
                  evidence=(Triage.Line(line=1, text=text),))  # fmt: skip


def test_a_signature_is_the_line_without_its_figures() -> None:
    one = signature(triage_of("2026-01-02 03:04:05 E rank 3 at 0xdeadbeef1: lost 17.5 GiB"))
    two = signature(triage_of("2026-09-09 13:14:15 E rank 5 at 0xcafe1234a: lost 3 GiB"))
    assert one == two
    assert one != signature(triage_of("2026-01-02 03:04:05 E rank 3: found 17.5 GiB"))


def test_what_may_be_relaunched_once_is_the_same_wherever_it_stopped() -> None:
    one, two = (triage_of(text).model_copy(update={"name": "killed"}) for text in ("a", "b"))
    assert signature(one) == signature(two) == "killed"


def test_the_same_line_again_opens_an_alert_until_the_next_job() -> None:
    now = failure_of(run_spec(), failed())
    assert now is not None and now.job_id == "toy-i002"
    before = former(signature=now.signature, step=5_000)
    past = failed().model_copy(update={"former_failures": (before,)})
    (alert,) = same_failure_again(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-14", Severity.ALERT)
    assert "escalate to ada" in alert.next_action and "2 times" in alert.title
    running = past.model_copy(update={"facets": history(T0, job=job()).facets})
    assert list(same_failure_again(run_spec(), running)) == []


def test_a_failure_is_not_its_own_repetition() -> None:
    now = failure_of(run_spec(), failed())
    assert now is not None and same_again([now], now) == ()


def test_the_same_place_counts_and_another_one_does_not() -> None:
    here = former(job_id="b", step=10_060)
    assert sameness(former(step=10_000), here) is not None
    assert sameness(former(step=9_900), here) is None
    assert sameness(former(step=None), here) is None
    assert (window(100), window(100_000)) == (50, 1000)


def test_what_a_person_stopped_is_no_failure() -> None:
    assert failure_of(run_spec(), history(T0, job=job(Phase.CANCELLED))) is None
    past = failed("step 3 loss 1", "KeyboardInterrupt").model_copy(
        update={"former_failures": (former(step=3),)}
    )
    assert list(same_failure_again(run_spec(), past)) == []


def test_a_stop_that_we_ordered_opens_nothing() -> None:
    past = failed(tracker=tracker(step=10)).model_copy(
        update={"former_failures": (former(step=10),), "stop_ordered_by": "ada"}
    )
    assert list(same_failure_again(run_spec(), past)) == []


def test_the_last_step_is_the_furthest_that_anyone_saw() -> None:
    found = failure_of(run_spec(), failed(tracker=tracker(step=44)))
    assert found is not None and found.step == 44


def test_a_requeued_job_that_fails_again_has_failed_twice() -> None:
    values = [
        job(Phase.FAILED, exit_code=1, launch_id="toy-i002", started_at=T0 + at, restarts=count)
        for count, at in ((0, 0.0), (1, 500.0))
    ]
    first, again = (
        failure_of(run_spec(), history(T0 + 900, job=value, log=log(*BOOM))) for value in values
    )
    assert first is not None and again is not None
    assert same_again([first], again) and first.job_id == "toy-i002"


def test_a_failure_is_left_behind_once_another_job_of_the_run_is_the_present_one() -> None:
    run = run_spec()
    first, none = left_behind(run, failed(), None)
    assert first is not None and none is None
    assert left_behind(run, failed(), first) == (first, None)
    next_job = history(T0 + 200, job=job(launch_id="toy-i003"))
    assert left_behind(run, next_job, first) == (None, first)
    later = job(Phase.FAILED, exit_code=1, ended_at=T0 + 500, launch_id="toy-i003")
    at_once = history(T0 + 510, job=later, log=log(*BOOM))
    now, former = left_behind(run, at_once, first)
    assert former == first and now is not None and now.job_id == "toy-i003"


def test_a_failure_is_kept_while_its_job_cannot_be_seen_or_goes_by_another_id() -> None:
    run = run_spec()
    first, _ = left_behind(run, failed(), None)
    assert left_behind(run, history(T0 + 200), first) == (first, None)
    renamed, former = left_behind(run, failed(launch="toy-i009"), first)
    assert former is None and renamed is not None and renamed.job_id == "toy-i009"


def test_what_a_scheduler_gives_every_job_and_what_a_person_stopped_is_left_out() -> None:
    run, line = run_spec(), "slurmstepd: error: *** JOB 7 CANCELLED AT 01:02 DUE TO TIME LIMIT ***"
    limited = failed(line)
    found = failure_of(run, limited)
    assert found is not None and found.name == "walltime"
    assert left_behind(run, limited, None) == (None, None)
    stopped = failed().model_copy(update={"stop_ordered_by": "ada"})
    assert left_behind(run, stopped, None) == (None, None)
