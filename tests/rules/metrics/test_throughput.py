from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.history import Settings
from cockpit.model.observed import Phase, Row
from cockpit.rules.metrics.throughput import throughput_collapse
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.wandb.decode import StepRate
from tests.rules.making import CADENCE, T0, folded, history, job, run_spec, tracker, windows


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
