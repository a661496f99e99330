"""A silent log decides nothing while checkpoints or the tracker show that the job works."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.facet import Facet, known
from cockpit.model.observed import LogValue, Phase
from cockpit.watch.reports import case_of, judged
from cockpit.watch.runstate import RunState
from tests.rules.making import T0, checkpoint, checkpoints, job, run_spec, tracker

SILENT = job(Phase.WAITING, id="pid:7", started_at=T0).model_copy(
    update={"state": "starting", "reason": "launched, no log line yet", "pending_since": T0}
)
SAVE_EVERY = 300.0
EMPTY = LogValue(path="/run.log", size=0, mtime=T0)
SAVED = checkpoints(*(checkpoint(step, T0 + step) for step in (60, 120, 180)))


def after(at: float, *answers: tuple[str, Any]) -> RunState:
    state = RunState(spec=run_spec(), key="k")
    for name, value in answers:
        facet: Facet[Any] = known(value, name, at)
        state.take(name, facet)
    state.mark_phase(at)
    return state


def keys(state: RunState, at: float) -> dict[str, str]:
    found = judged(case_of(state, at)).alerts
    return {alert.key.removesuffix(":toy"): alert.title for alert in found}


@pytest.mark.parametrize("job_first", [True, False])
def test_what_saves_since_its_start_runs_though_its_log_is_empty(job_first: bool) -> None:
    answers = [("job", SILENT), ("log", EMPTY), ("checkpoints", SAVED)]
    state = after(T0 + 200, *(answers if job_first else reversed(answers)))
    value = state.facets.job.value
    assert value is not None
    assert (value.phase, value.state, value.pending_since) == (Phase.RUNNING, "running", None)
    assert value.reason is not None and "step 180 was saved" in value.reason
    assert keys(state, T0 + 200) == {"C-23": "The log is empty; training goes on"}
    again: Facet[Any] = known(SILENT, "job", T0 + 201)
    assert not state.take("job", again), "the same answer again is no news"


def test_a_step_of_the_tracker_is_as_good() -> None:
    state = after(
        T0 + 200, ("job", SILENT), ("log", EMPTY), ("tracker", tracker(last_step_at=T0 + 99))
    )
    assert state.facets.job.value is not None
    assert state.facets.job.value.phase is Phase.RUNNING


def test_what_a_former_job_saved_shows_nothing_of_this_one() -> None:
    old = checkpoints(checkpoint(60, T0 - 60))
    state = after(T0 + 200, ("job", SILENT), ("log", EMPTY), ("checkpoints", old))
    assert state.facets.job.value == SILENT


def test_once_saves_are_all_that_shows_training_they_show_its_stall() -> None:
    fine, late = T0 + 180 + 3 * SAVE_EVERY, T0 + 181 + 3 * SAVE_EVERY
    answers = (("job", SILENT), ("log", EMPTY), ("checkpoints", SAVED))
    assert "C-06" not in keys(after(fine, *answers), fine)
    found = keys(after(late, *answers), late)
    assert found["C-06"] == "No new checkpoint"
    assert "C-04" not in found


def test_a_process_that_shows_nothing_at_all_waits_in_no_queue() -> None:
    within = run_spec().thresholds.first_step_within
    answers = (("job", SILENT), ("log", EMPTY))
    assert keys(after(T0 + within, *answers), T0 + within) == {}
    late = T0 + within + 1
    (alert,) = judged(case_of(after(late, *answers), late)).alerts
    assert (alert.id, alert.title) == ("C-06", "Nothing shown since the start")
    assert "cluster" not in alert.next_action
