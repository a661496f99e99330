"""Which final step counts, and that a disagreement is said (SPEC C-20)."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import known, merge
from cockpit.model.finalstep import FinalStepSource
from cockpit.model.history import History, Launched, Settings
from cockpit.model.observed import Phase, Row
from cockpit.model.run import RunSpec
from cockpit.rules.judge import judge
from cockpit.rules.lineage.success import success_without_artifacts
from cockpit.rules.metrics.progress import progress, with_baseline, with_final_step
from cockpit.rules.metrics.resume import first_completed, first_step_wrong, resumed_elsewhere
from cockpit.rules.metrics.throughput import throughput_collapse
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.wandb.decode import StepRate
from tests.rules.making import (
    CADENCE,
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


FINALSTEP_ROWS = losses([2.0] * 100)
LEVANTER = {"trainer": {"num_train_steps": 100}}


def unnamed(**changes: object) -> RunSpec:
    return run_spec(**{"final_step": None, "final_step_source": None, **changes})


def test_the_config_that_the_job_shows_tells_it_where_the_run_file_does_not() -> None:
    past = history(T0, folded(FINALSTEP_ROWS), job=job(config=LEVANTER), tracker=tracker(step=40))
    found = progress(with_final_step(unnamed(), past), past)
    assert (found.text, found.final_step_doubt) == ("~40/100", None)
    assert found.final_step_source == "the job's own config: trainer.num_train_steps"


def test_the_living_config_outranks_that_of_the_next_launch() -> None:
    after = FinalStepSource(step=300, source="config file: max_steps")
    run = unnamed(final_step=300, final_step_source=after.source, final_step_told=(after,))
    past = history(T0, job=job(), tracker=tracker(step=40, config={"max_steps": 200}))
    found = progress(with_final_step(run, past), past)
    assert (found.final_step, found.final_step_source) == (200, "the tracker's config: max_steps")
    assert found.final_step_doubt == "config file: max_steps: 300"


def test_the_run_files_word_stands_and_what_speaks_against_it_is_said() -> None:
    past = history(T0, job=job(config=LEVANTER), tracker=tracker(step=40))
    found = progress(with_final_step(run_spec(final_step=90), past), past)
    assert (found.final_step, found.text) == (90, "~40/90")
    assert found.final_step_doubt == "the job's own config: trainer.num_train_steps: 100"
    same = progress(with_final_step(run_spec(final_step=99), past), past)
    assert same.final_step_doubt is None


def test_without_any_config_it_stays_unknown() -> None:
    past = history(T0, job=job(), tracker=tracker(step=4600, config={"lr": 0.1}))
    found = progress(with_final_step(unnamed(), past), past)
    assert (found.text, found.final_step_source) == ("~4600/unknown", None)


@pytest.mark.parametrize(("last", "alerts"), [(98, 1), (99, 0), (100, 0)])
def test_both_ways_to_count_to_the_end_are_the_final_step(last: int, alerts: int) -> None:
    """N training steps end at N - 1 (counted from 0) or at N; SPEC K, C-19."""
    done = job(Phase.SUCCEEDED, config=LEVANTER, ended_at=T0 + 200.0)
    past = history(
        T0 + 300.0,
        folded(losses([2.0] * (last + 1))),
        job=done,
        tracker=tracker(step=last, state="finished", exit_code=0),
        checkpoints=checkpoints(checkpoint(last, T0 + 190.0)),
    )
    run = with_final_step(unnamed(), past)
    assert len(list(success_without_artifacts(run, past))) == alerts


def alerts(
    rows: list[Row], phase: Phase = Phase.RUNNING, unit: str | None = "tok/s"
) -> list[Alert]:
    now = max(row.at or 0 for row in rows)
    value = tracker(throughput_unit=unit)
    past = history(now, folded(rows), job=job(phase), tracker=value)
    return list(throughput_collapse(run_spec(), past))


def test_three_low_windows_in_a_row_are_a_collapse_and_it_says_why() -> None:
    (alert,) = alerts(windows([1200.0] * 10 + [830.0] * 3 + [830.0]))
    assert (alert.id, alert.key, alert.severity) == ("C-05", "C-05:toy", Severity.ALERT)
    assert alert.since == T0 + 10 * CADENCE
    assert "31 % below baseline for 3m" in alert.title
    assert alert.evidence[0].text == "830, 830, 830 tok/s in the last 3 windows of 1m"
    assert "1.2k tok/s" in alert.evidence[1].text


def test_two_are_not() -> None:
    assert alerts(windows([1200.0] * 10 + [830.0] * 2 + [1200.0])) == []
    assert alerts(windows([1200.0] * 10 + [830.0] * 2)) == []


def test_an_unfinished_window_does_not_count() -> None:
    assert alerts(windows([1200.0] * 10 + [830.0] * 3)) == []


def test_it_closes_with_the_first_window_back_above() -> None:
    assert alerts(windows([1200.0] * 10 + [700.0] * 8 + [1190.0] * 2)) == []


def test_windows_without_data_neither_count_nor_break_the_row() -> None:
    good = windows([1200.0] * 10)
    low = [Row(1000 + i, T0 + (10 + 4 * i) * CADENCE, 2.0, 700.0) for i in range(4)]
    assert len(alerts(good + low)) == 1


def test_the_slow_first_window_is_not_used() -> None:
    assert folded(windows([10.0, 1200.0, 1200.0, 1200.0, 1200.0])).baseline == 1200.0


def test_a_resume_begins_anew_but_keeps_the_baseline() -> None:
    before = windows([1200.0] * 10 + [700.0] * 4)
    after = [
        row._replace(step=(row.step or 0) - 30) for row in windows([700.0] * 2, start=T0 + 3600)
    ]
    assert alerts(before + after) == []
    longer = [
        row._replace(step=(row.step or 0) - 30) for row in windows([700.0] * 6, start=T0 + 3600)
    ]
    assert len(alerts(before + longer)) == 1


def test_what_is_slow_since_its_jobs_start_may_have_other_nodes() -> None:
    rows = windows([1200.0] * 10 + [700.0] * 5)
    now = T0 + 15 * CADENCE

    def told(started_at: float) -> Alert:
        past = history(now, folded(rows), job=job(started_at=started_at))
        (alert,) = throughput_collapse(run_spec(), past)
        return alert

    began = told(T0 + 9 * CADENCE)
    assert began.confidence == "likely" and "fewer nodes" in began.evidence[-1].text
    assert told(T0).confidence == "sure" and told(T0 + 12 * CADENCE).confidence == "sure"


def test_steps_that_waited_for_an_evaluation_are_no_slow_steps() -> None:
    """Steps per second stand in, and every second row is logged after a pause."""
    gaps = [50.0] * 60 + [50.0, 250.0] * 12
    times = accumulate(gaps, initial=T0)
    rows = [Row(10 * i, at, 2.0) for i, at in enumerate(times)]
    for each in (rows, list(StepRate().fill(rows, MetricKeys()))):
        seen = folded(each, run_spec(cadence=600.0)).throughput
        assert seen.low == 0 and seen.latest == seen.baseline == 0.2


def test_a_slow_decline_does_not_take_the_baseline_along() -> None:
    decline = [1000.0 * (1 - 0.01 * i) for i in range(40)]
    assert len(alerts(windows([1000.0] * 6 + decline))) == 1


def test_without_a_throughput_metric_steps_per_second_stand_in() -> None:
    steady = [Row(i, T0 + i * 2.0, 2.0) for i in range(400)]
    slow = [Row(400 + i, T0 + 800 + i * 6.0, 2.0) for i in range(60)]
    (alert,) = alerts(steady + slow)
    assert "steps/s" in alert.evidence[1].text


def test_the_metric_that_appears_late_is_not_compared_with_steps_per_second() -> None:
    bare = [Row(i, T0 + i, 2.0) for i in range(600)]
    trend = folded(bare + windows([0.1] * 4, start=T0 + 700))
    assert trend.throughput.low == 0


def test_a_job_that_is_over_has_no_collapse() -> None:
    rows = windows([1200.0] * 10 + [600.0] * 5)
    assert alerts(rows, Phase.FAILED) == [] == alerts(rows, Phase.WAITING)


def test_a_clock_that_jumps_back_does_not_blind_it() -> None:
    early = windows([1200.0] * 10, start=T0 + 1e6)
    late = [row._replace(step=(row.step or 0) + 100) for row in windows([600.0] * 6)]
    assert len(alerts(early + late)) == 1


noise = st.floats(0.95, 1.05)


@given(st.lists(noise, min_size=9, max_size=40), st.lists(st.integers(0, 39), max_size=6))
def test_single_dips_never_fire(level: list[float], dips: list[int]) -> None:
    alone = {dip for dip in dips if dip - 1 not in dips and dip - 2 not in dips}
    levels = [1000 * x * (0.1 if i in alone else 1.0) for i, x in enumerate(level)]
    assert alerts(windows(levels)) == []


@given(
    st.lists(noise, min_size=8, max_size=60),
    st.floats(0.05, 0.66),
    st.lists(noise, min_size=5, max_size=20),
    st.floats(1e-3, 1e7),
    st.floats(0, CADENCE),
)
def test_a_real_collapse_is_never_missed(
    before: list[float], share: float, after: list[float], scale: float, shift: float
) -> None:
    good = windows([scale * x for x in before])
    bad = windows([scale * share * x for x in after], start=T0 + len(before) * CADENCE + shift)
    bad = [row._replace(step=(row.step or 0) + len(good)) for row in bad]
    assert len(alerts(good + bad)) == 1


def resized(
    levels: list[float], batch: tuple[int, int], key: str = "train_batch_size"
) -> list[Alert]:
    """The alerts of a job that began after ten windows at 1200, with another batch or none."""
    rows = windows([1200.0] * 10 + levels)
    old, new = ({key: str(size), "lr": "0.1"} for size in batch)
    past = history(
        T0 + (10 + len(levels)) * CADENCE,
        folded(rows),
        job=job(started_at=T0 + 9.5 * CADENCE),
        settings=Settings(source="tracker", job="b", values=new),
        former_settings=Settings(source="tracker", job="a", values=old),
    )
    return list(throughput_collapse(run_spec(), past))


def test_another_batch_has_another_baseline() -> None:
    slower = [700.0] * 12
    assert resized(slower, (64, 32)) == []
    assert resized(slower, (8, 4), "trainer.num_nodes") == []
    assert len(resized(slower, (64, 64))) == 1
    assert len(resized(slower, (64, 32), "eval.batch_size")) == 1, "that is not what trains"


def test_a_collapse_below_the_new_baseline_is_one_and_says_which_it_is() -> None:
    assert resized([*[700.0] * 12, *[450.0] * 3], (64, 32)) == []
    (alert,) = resized([*[700.0] * 12, *[450.0] * 4], (64, 32))
    assert alert.title.startswith("Throughput 36 % below") and alert.since == T0 + 22 * CADENCE
    assert "train_batch_size: 64 → 32" in alert.evidence[-1].text


LAUNCHED = Launched(at=T0 + 100, job_id="host:1", launch_id="toy-i002", resumes_from=50)


def after(*rows: Row, launched: Launched = LAUNCHED, **more: object) -> History:
    former = losses([2.0] * 60)
    past = history(T0 + 200, folded([*former, *rows]), **{"job": job(), **more})
    return past.model_copy(update={"launched": launched})


def found(past: History) -> list[str]:
    return [alert.title for alert in resumed_elsewhere(run_spec(), past)]


def test_a_resume_from_the_checkpoint_is_silent() -> None:
    assert found(after(Row(51, T0 + 110, 2.0))) == []
    assert found(after(Row(50, T0 + 110, 2.0))) == []


def test_a_restart_from_zero_is_an_alert_at_its_first_row() -> None:
    past = after(Row(0, T0 + 110, 9.0))
    assert found(past) == ["Resumed at step 0, not from 50"]
    assert "C-12" in {alert.id for alert in judge(run_spec(), past)}
    (alert,) = resumed_elsewhere(run_spec(), past)
    assert "stop toy" in alert.next_action and alert.key.endswith(":toy-i002")


def test_the_log_tells_it_too() -> None:
    rows = (Row(59, T0 + 59, 2.0), Row(0, T0 + 111, 9.0))
    past = history(T0 + 200, job=job(), log=log("x", rows=rows))
    past = past.model_copy(update={"launched": LAUNCHED})
    assert found(past) == ["Resumed at step 0, not from 50"]


def test_rows_of_the_former_job_say_nothing() -> None:
    assert found(after()) == []


def test_what_was_seen_once_is_not_forgotten() -> None:
    known = LAUNCHED.model_copy(update={"first_step": 0})
    rows = [Row(step, T0 + 110 + step, 2.0) for step in range(200)]
    assert found(after(*rows, launched=known)) == ["Resumed at step 0, not from 50"]


def test_a_step_that_cannot_have_been_reached_is_another_checkpoint() -> None:
    assert found(after(Row(5000, T0 + 120, 2.0))) == ["Resumed at step 5,000, not from 50"]
    assert found(after(Row(150, T0 + 190, 2.0))) == []


def test_a_clock_that_is_ahead_does_not_accuse_the_former_job_s_last_row() -> None:
    assert found(after(Row(5000, T0 + 105, 2.0))) == []


def test_a_job_that_is_over_is_told_otherwise() -> None:
    ended = job(Phase.FAILED, ended_at=T0 + 150)
    assert found(after(Row(0, T0 + 110, 9.0), job=ended)) == []


def test_from_scratch_there_is_nothing_to_expect() -> None:
    scratch = LAUNCHED.model_copy(update={"resumes_from": None})
    assert found(after(Row(0, T0 + 110, 9.0), launched=scratch)) == []


def restarted(*rows: Row, saved: float = T0 + 90, **more: object) -> History:
    """A job that no cockpit launched, begun at T0 + 100 beside a complete Checkpoint of 46."""
    began = {"job": job(started_at=T0 + 100), "checkpoints": checkpoints(checkpoint(46, saved))}
    return history(T0 + 200, folded([*losses([2.0] * 60), *rows]), **{**began, **more})


def test_a_restart_by_anybody_from_zero_is_an_alert() -> None:
    past = restarted(Row(0, T0 + 110, 9.0))
    (alert,) = resumed_elsewhere(run_spec(), past)
    assert alert.title == "Restarted at step 0 although step 46 was there"
    assert (alert.confidence, alert.since) == ("likely", T0 + 100)
    assert "stop toy" in alert.next_action
    later = [Row(step, T0 + 110 + step, 2.0) for step in range(90)]
    assert found(restarted(*later)) == ["Restarted at step 0 although step 46 was there"]


def test_a_restart_by_anybody_that_goes_on_is_silent() -> None:
    assert found(restarted(Row(46, T0 + 110, 2.0), Row(47, T0 + 111, 2.0))) == []
    assert found(restarted(Row(50, T0 + 110, 2.0))) == []


def test_what_the_job_saved_itself_is_not_what_it_should_have_loaded() -> None:
    assert found(restarted(Row(1, T0 + 101, 9.0), saved=T0 + 150)) == []


def test_a_later_restart_by_hand_is_not_measured_by_our_launch() -> None:
    past = restarted(Row(46, T0 + 160, 2.0), job=job(started_at=T0 + 155, id="host:2"))
    past = past.model_copy(update={"launched": LAUNCHED})
    assert found(past) == []


def test_a_lone_low_line_before_the_steps_is_no_step() -> None:
    rows = [Row(0, T0 + 110, 2.0), *(Row(51 + i, T0 + 111 + i, 2.0) for i in range(4))]
    assert found(after(*rows)) == []
    noted = LAUNCHED.model_copy(update={"first_step": 0})
    past = history(T0 + 200, job=job(), log=log("x", rows=tuple(rows)))
    assert found(past.model_copy(update={"launched": noted})) == []
    assert first_completed([(0, 1.0), (50, 2.0), (100, 3.0), (150, 4.0)]) == (0, 1.0)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_only_what_is_before_the_checkpoint_is_wrong_without_a_clock(
    resumed: int, first: int
) -> None:
    launched = LAUNCHED.model_copy(update={"resumes_from": resumed})
    assert (first_step_wrong(launched, first, None, None) is not None) == (first < resumed)


def test_a_first_step_that_may_not_be_the_first_is_only_the_latest() -> None:
    rows = [Row(step, T0 + 110 + step - 401, 2.0) for step in range(401, 560)]
    began = {"job": job(started_at=T0 + 100), "checkpoints": checkpoints(checkpoint(600, T0 + 90))}
    whole = history(T0 + 900, folded(rows), **began)
    assert found(whole) == ["Restarted at step 401 although step 600 was there"]
    assert found(whole.model_copy(update={"rows_from": 0.7, "log_from": 0.7})) == [
        "Restarted at or before step 401 although step 600 was there"
    ]
    untimed = [row._replace(at=None) for row in rows[:48]]
    assert found(history(T0 + 900, folded([*untimed, *rows[48:]]), **began)) == [
        "Restarted at or before step 449 although step 600 was there"
    ]


def test_hours_in_a_queue_are_no_steps_that_the_job_may_have_made() -> None:
    """How far a first step may lie ahead counts from the job's start, not from its submit."""
    queued = LAUNCHED.model_copy(update={"started_at": LAUNCHED.at + 6 * 3600})
    soon = queued.begun + 600
    assert first_step_wrong(queued, 9000, soon, 1.0) is not None
    assert first_step_wrong(LAUNCHED, 9000, soon, 1.0) is None
    assert first_step_wrong(queued, 60, soon, 1.0) is None


def test_lightning_may_go_on_from_an_older_last_ckpt() -> None:
    """Killed between the save of 200 and the next ``last.ckpt``, which still held 150."""

    def by(layout: str, *steps: int) -> History:
        rows = (Row(step, T0 + 110 + step, 2.0) for step in range(154, 190))
        items = (checkpoint(step, T0 + 90).model_copy(update={"layout": layout}) for step in steps)
        return restarted(*rows, checkpoints=checkpoints(*items))

    assert found(by("lightning", 100, 150, 200)) == []
    assert found(by("hf", 100, 150, 200)) == ["Restarted at step 154 although step 200 was there"]
    assert found(by("lightning", 200)) == ["Restarted at step 154 although step 200 was there"]


def test_where_not_every_step_is_logged_the_first_row_is_not_the_first_step() -> None:
    rows = [Row(step, T0 + 110 + step, 9.0) for step in range(10, 40, 10)]
    assert found(after(*rows)) == ["Resumed at or before step 10, not from 50"]
