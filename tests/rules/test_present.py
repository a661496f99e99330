"""What a run that names no job is taken to be, by what its tracker says."""

from __future__ import annotations

import pytest

from cockpit.model.observed import Phase
from cockpit.rules.present import job_of
from tests.rules.making import history, tracker


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("running", Phase.RUNNING), ("silent", Phase.RUNNING), ("preempting", Phase.RUNNING),
        ("pending", Phase.WAITING), ("finished", Phase.SUCCEEDED), ("failed", Phase.FAILED),
        ("preempted", Phase.FAILED), ("killed", Phase.CANCELLED), ("crashed", Phase.UNKNOWN),
        ("transmogrified", Phase.UNKNOWN), ("unknown", Phase.UNKNOWN),
    ],
)  # fmt: skip
def test_the_trackers_word_for_the_state_of_a_run_without_a_job(state: str, phase: Phase) -> None:
    told = tracker(state=state, last_step_at=900.0, heartbeat_at=950.0)
    job = job_of(history(1000.0, tracker=told, job_named=False))
    assert job is not None and (job.state, job.phase) == (state, phase)
    assert job.ended_at == (950.0 if phase.terminal else None)
    assert (job.reason is None) == (phase in (Phase.RUNNING, Phase.WAITING))


def test_an_exit_record_is_believed_before_the_state() -> None:
    told = tracker(state="running", exit_code=3, last_record_at=940.0)
    job = job_of(history(1000.0, tracker=told, job_named=False))
    assert job is not None and (job.phase, job.exit_code) == (Phase.FAILED, 3)


def test_a_run_that_has_not_begun_is_none() -> None:
    assert job_of(history(1000.0, tracker=tracker(state="starting"), job_named=False)) is None
