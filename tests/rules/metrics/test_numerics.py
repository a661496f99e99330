from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.trend import Trend
from cockpit.rules.metrics.numerics import advance
from tests.growing import grows_with_its_size
from tests.rules.making import T0, folded, losses, run_spec

metric = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([1.0, 2.0, 3.0]),
)
rows = st.lists(
    st.builds(
        Row,
        step=st.one_of(st.none(), st.integers(0, 60)),
        at=st.one_of(st.none(), st.floats(T0, T0 + 2000)),
        loss=metric,
        throughput=metric,
        grad_norm=metric,
        z_loss=metric,
        router_entropy=metric,
        skipped=st.sampled_from([None, 0.0, 1.0, 2.0]),
    ),
    max_size=80,
)


@given(rows, st.lists(st.integers(1, 9), min_size=1))
def test_the_cut_into_batches_makes_no_difference(batch: list[Row], cuts: list[int]) -> None:
    run = run_spec()
    trend, rest, turn = Trend(), list(batch), 0
    while rest:
        size = cuts[turn % len(cuts)]
        trend, rest, turn = advance(trend, rest[:size], run), rest[size:], turn + 1
    assert repr(trend) == repr(advance(Trend(), batch, run))


@given(rows, rows)
def test_a_trend_survives_the_store(before: list[Row], after: list[Row]) -> None:
    run = run_spec()
    trend = advance(Trend(), before, run)
    kept = Trend.model_validate_json(trend.model_dump_json())
    again = Trend.model_validate(json.loads(json.dumps(trend.model_dump(mode="python"))))
    assert repr(kept) == repr(trend) == repr(again)
    assert repr(advance(kept, after, run)) == repr(advance(trend, after, run))


def test_every_part_of_a_trend_is_folded() -> None:
    good = [Row(i, T0 + i, 2.0, 1e5, 1.0, skipped=1.0) for i in range(400)]
    bad = [Row(400 + i, T0 + 400 + i, math.nan, 1e5, math.nan) for i in range(20)]
    trend, empty = folded([*good, *bad]), Trend()
    same = [name for name in Trend.model_fields if getattr(trend, name) == getattr(empty, name)]
    assert same == [], "a part of the fold that advance() does not make"


def test_its_size_is_bounded() -> None:
    noise = [Row(i, T0 + i * 0.01, 2 + math.sin(i), 1e5 + i % 7, 1.0) for i in range(30_000)]
    assert len(folded(noise).model_dump_json()) < 25_000


def test_its_cost_grows_with_the_rows() -> None:
    many = [Row(i, T0 + i, 2 + (i % 13) / 100, 1e5 + i % 7, 1.0) for i in range(16_000)]
    assert grows_with_its_size(lambda size: folded(many[:size]), len(many))


def test_the_usual_step_time_is_a_median_that_a_pause_does_not_move() -> None:
    rows = [Row(i, T0 + i * 2 + (500 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).usual_step_s == 2.0


def test_rows_every_ten_steps_have_a_gap_and_a_step_time() -> None:
    pace = folded([Row(i * 10, T0 + i * 30, 1.0) for i in range(10)]).pace
    assert (pace.usual_step_s, pace.usual_gap_s) == (3.0, 30.0)


def test_a_resume_is_a_step_that_goes_back() -> None:
    rows = [*losses([1.0] * 50), Row(20, T0 + 900, 1.0), Row(21, T0 + 901, 1.0)]
    pace = folded(rows).pace
    assert (pace.resumes, pace.resumed_at, pace.step) == (1, T0 + 900, 21)
    assert pace.usual_step_s == 1.0


def test_an_evaluation_logged_late_is_no_resume_and_no_sign_of_training() -> None:
    rows = [*losses([1.0] * 50), Row(40, T0 + 900)]
    pace = folded(rows).pace
    assert (pace.resumes, pace.step, pace.at) == (0, 49, T0 + 49)


def test_an_evaluation_by_samples_seen_is_no_step_and_its_end_no_resume() -> None:
    rows: list[Row] = []
    for step in range(0, 400, 10):
        rows.append(Row(step, T0 + step, 2.0))
        if step % 100 == 90:
            rows.append(Row(1_000_000 + step, T0 + step + 1))
    trend = folded(rows)
    assert (trend.pace.step, trend.pace.resumes, trend.writers.turns) == (390, 0, 0)


def test_a_row_that_repeats_a_step_is_no_new_step() -> None:
    pace = folded([*losses([1.0] * 5), Row(4, T0 + 900, 1.0)]).pace
    assert pace.at == T0 + 4


def test_times_may_be_missing() -> None:
    pace = folded([Row(1, None, 1.0), Row(2, None, 1.0)]).pace
    assert (pace.step, pace.at, pace.usual_step_s) == (2, None, None)


def test_a_pause_is_remembered_until_a_resume_begins_anew() -> None:
    rows = [Row(i, T0 + i * 2 + (500 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).pace.pauses == ((T0 + 40, T0 + 542),)
    twice = folded([*rows, Row(40, T0 + 900, 1.0), Row(41, T0 + 1300, 1.0)]).pace.pauses
    assert twice == ((T0 + 40, T0 + 542), (T0 + 578, T0 + 900), (T0 + 900, T0 + 1300))
    assert folded([*rows, Row(20, T0 + 900, 1.0)]).pace.pauses == ()


def test_rows_of_an_even_pace_and_a_single_late_one_make_no_pause() -> None:
    rows = [Row(i, T0 + i * 2 + (3 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).pace.pauses == ()


def test_the_usual_pace_is_not_that_of_rows_flushed_at_once() -> None:
    burst = [Row(step, 100.0 + step * 0.00007, 2.0) for step in range(300)]
    trend = advance(Trend(), burst, run_spec())
    assert (trend.usual_step_s, trend.pace.usual_gap_s) == (None, None)
    trend = advance(trend, [Row(300 + more, 101.0 + more, 2.0) for more in range(4)], run_spec())
    assert trend.usual_step_s == pytest.approx(1.0, abs=0.03)
