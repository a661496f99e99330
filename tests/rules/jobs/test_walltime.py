from __future__ import annotations

import pytest

from cockpit.model.alert import Severity
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue, Phase
from cockpit.rules.jobs.jobstate import walltime_short
from tests.rules.making import (
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    losses,
    run_spec,
    tracker,
)

RUN = run_spec()  # saves every 300 s
SAVED = checkpoints(checkpoint(100, T0))


def test_a_limit_before_the_next_save_is_said_once_it_is_known() -> None:
    (alert,) = walltime_short(RUN, history(T0 + 1, job=job(ends_by=T0 + 299), checkpoints=SAVED))
    assert alert.id == "C-26" and alert.since == T0
    assert "goes on after it" not in alert.next_action


def test_a_job_that_is_signalled_before_its_limit_may_save_then() -> None:
    value = job(ends_by=T0 + 299, signal_before_end=("USR1", 120.0))
    (alert,) = walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))
    assert alert.severity is Severity.WARNING
    assert alert.next_action.startswith("see that it saves at USR1, which comes at ")
    (alert,) = walltime_short(RUN, history(T0 + 200, job=value, checkpoints=SAVED))
    assert "USR1, which came at " in alert.next_action


@pytest.mark.parametrize(
    "value",
    [
        job(ends_by=T0 + 300),
        job(),
        job(Phase.WAITING, ends_by=T0 + 10),
        job(Phase.FAILED, ends_by=T0 + 10),
    ],
)
def test_a_limit_that_leaves_time_or_is_none_is_fine(value: JobValue) -> None:
    assert list(walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))) == []


def test_the_time_counts_from_the_start_of_a_job_that_has_not_saved() -> None:
    late = job(started_at=T0 + 100, ends_by=T0 + 399)
    assert list(walltime_short(RUN, history(T0 + 101, job=late, checkpoints=SAVED)))
    enough = job(started_at=T0 + 100, ends_by=T0 + 401)
    assert not list(walltime_short(RUN, history(T0 + 101, job=enough, checkpoints=SAVED)))


def test_a_run_that_is_done_before_loses_nothing() -> None:
    rows = losses([2.0] * 100)  # a step a second: 10 are left
    run = run_spec(final_step=109)
    value = tracker(last_step_at=T0 + 99, step=99, usual_step_s=1.0)
    past = history(
        T0 + 100, folded(rows), job=job(ends_by=T0 + 200), tracker=value, checkpoints=SAVED
    )
    assert list(walltime_short(run, past)) == []
    assert list(walltime_short(RUN, past)), "with 900 steps left it does"


def test_what_goes_on_after_it_is_named() -> None:
    after = LiveJob(id="43", name="hero", why="afterany 42")
    value = job(ends_by=T0 + 10, queued=(after,))
    (alert,) = walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))
    assert "43 continues after it" in alert.next_action


def test_saves_that_are_overdue_promise_no_next_one() -> None:
    past = history(T0 + 650, job=job(ends_by=T0 + 700), checkpoints=SAVED)
    assert list(walltime_short(RUN, past)) == []
