from __future__ import annotations

from cockpit.model.facet import known, merge
from cockpit.model.observed import Phase, Row
from cockpit.rules.metrics.progress import progress, with_baseline
from tests.rules.making import (
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    run_spec,
    seen,
    tracker,
    windows,
)

ROWS = losses([2.0] * 100, every=2.0)


def test_the_tracker_tells_the_step_and_the_rate_tells_the_rest() -> None:
    found = progress(run_spec(), history(T0, folded(ROWS), job=job(), tracker=tracker(step=400)))
    assert (found.step, found.final_step, found.text) == (400, 1000, "~400/1000")
    assert found.words == "~400/1,000"
    assert found.eta_s == 1200.0
    assert found.final_step_source == "cockpit.toml"


def test_an_unknown_final_step_stays_unknown() -> None:
    run = run_spec(final_step=None)
    found = progress(run, history(T0, folded(ROWS), job=job(), tracker=tracker(step=4600)))
    assert (found.text, found.eta_s, found.final_step_source) == ("~4600/unknown", None, None)


def test_without_a_tracker_the_rows_of_the_log_tell() -> None:
    rows = (Row(7, None, 2.0), Row(None, T0, 2.0))
    assert progress(run_spec(), history(T0, log=log("x", rows=rows))).step == 7
    assert progress(run_spec(), history(T0, folded(ROWS))).step == 99
    assert progress(run_spec(), history(T0)).text == "unknown/1000"


def test_a_log_that_an_engine_before_this_one_read_tells_its_last_step() -> None:
    lost = merge(known(log("x", mtime=T0 - 9, told_step=31), "run.log", T0 - 9), blind())
    past = history(T0, log=lost, checkpoints=checkpoints(checkpoint(20, T0)))
    found = progress(run_spec(), past)
    assert (found.step, found.step_source) == (31, "log")


def test_the_diagnosis_of_an_ended_job_has_read_above_the_lines_that_are_followed() -> None:
    text = log(*(f"step {n}/1000 | loss 2.0" for n in (40, 41, 42)), "bye")
    past = history(T0, folded([Row(7, T0, 2.0)]), job=job(Phase.SUCCEEDED), log=text)
    assert progress(run_spec(), past).text == "~42/1000"
    alive = history(T0, folded([Row(7, T0, 2.0)]), job=job(), log=text)
    assert progress(run_spec(), alive).text == "~7/1000"


def test_step_n_minus_one_is_the_last() -> None:
    past = history(T0, folded(ROWS), job=job(), tracker=tracker(step=999))
    assert progress(run_spec(), past).eta_s == 0.0


def test_only_a_running_job_has_an_eta() -> None:
    past = history(T0, folded(ROWS), job=job(Phase.FAILED), tracker=tracker(step=400))
    assert progress(run_spec(), past).eta_s is None


def test_the_trackers_own_step_time_serves_until_rows_are_folded() -> None:
    past = history(T0, job=job(), tracker=tracker(step=900, usual_step_s=3.0, last_step_at=T0))
    assert progress(run_spec(), past).eta_s == 300.0


def test_the_baseline_is_filled_in_where_throughput_is_logged() -> None:
    trend = folded(windows([1200.0] * 8))
    filled = with_baseline(seen(T0, tracker=tracker(throughput=1190.0)), trend)
    assert filled.tracker.value is not None and filled.tracker.value.baseline == 1200.0
    steps_only = folded([Row(i, T0 + i, 2.0) for i in range(900)])
    bare = seen(T0, tracker=tracker())
    assert steps_only.baseline is not None
    assert with_baseline(bare, steps_only) == bare
