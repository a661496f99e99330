"""Columns: bounded, and no extreme of a single row is ever lost."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.sources.wandb_columns import Columns


def row(step: int, loss: float) -> Row:
    return Row(step, None, loss)


def test_a_short_run_has_one_column_a_step() -> None:
    columns = Columns()
    columns.add([row(10, 3.0), row(11, 2.0), Row(12, None), row(13, 1.0)])
    assert [column[:5] for column in columns.columns()] == [
        (10, 10, 3.0, 3.0, 3.0),
        (11, 11, 2.0, 2.0, 2.0),
        (13, 13, 1.0, 1.0, 1.0),
    ]


def test_a_spike_and_a_nan_survive_every_merge() -> None:
    columns = Columns(most=32)
    losses = {40_000: 99.0, 70_001: math.nan, 70_002: math.inf, 5: -7.0}
    columns.add(row(step, losses.get(step, 1.0)) for step in range(100_000))
    shown = columns.columns()
    assert 16 <= len(shown) <= 32
    assert max(column.high or 0.0 for column in shown) == 99.0
    assert min(column.low or 0.0 for column in shown) == -7.0
    assert sum(column.nonfinite for column in shown) == 2
    points = columns.points(20)
    assert (40_000, 99.0) in points
    assert (5, -7.0) in points
    assert [step for step, loss in points if math.isnan(loss)] == [70_001]


def test_a_column_of_nothing_finite_is_a_gap() -> None:
    columns = Columns()
    columns.add([row(1, math.nan), row(1, math.inf)])
    assert columns.columns() == ((1, 1, None, None, None, 2),)


def test_a_loss_without_a_step_counts_at_the_step_before() -> None:
    columns = Columns()
    columns.add([row(7, 1.0), Row(None, None, math.nan)])
    assert [(one.first, one.nonfinite) for one in columns.columns()] == [(7, 1)]


def test_replayed_steps_fall_into_the_same_columns() -> None:
    columns = Columns()
    columns.add([row(1, 1.0), row(2, 2.0), row(1, 3.0)])
    assert columns.columns()[0] == (1, 1, 1.0, 3.0, 2.0, 0)


def test_huge_losses_have_a_finite_mean() -> None:
    columns = Columns()
    columns.add([row(1, 1.7e308), row(1, 1.7e308)])
    assert columns.columns()[0].mean == 1.7e308


steps = st.integers(-(10**6), 10**15)
losses = st.floats(width=32)


@given(rows=st.lists(st.tuples(steps, losses), max_size=200), most=st.integers(1, 40))
def test_whatever_comes_the_extremes_and_counts_are_exact(
    rows: list[tuple[int, float]], most: int
) -> None:
    columns = Columns(most=most)
    columns.add(row(step, loss) for step, loss in rows)
    shown = columns.columns()
    finite = [loss for _, loss in rows if math.isfinite(loss)]
    assert len(shown) <= most
    assert sum(column.nonfinite for column in shown) == len(rows) - len(finite)
    assert max((one.high for one in shown if one.high is not None), default=None) == max(
        finite, default=None
    )
    assert min((one.low for one in shown if one.low is not None), default=None) == min(
        finite, default=None
    )
    assert [one.first for one in shown] == sorted(one.first for one in shown)
    for one in shown:
        if one.low is not None and one.high is not None and one.mean is not None:
            slack = 1e-9 * max(abs(one.low), abs(one.high))
            assert one.low - slack <= one.mean <= one.high + slack


@given(rows=st.lists(st.tuples(st.integers(0, 5000), st.floats(-9, 9)), min_size=1, max_size=300))
def test_points_are_logged_points_in_order(rows: list[tuple[int, float]]) -> None:
    columns = Columns(most=64)
    columns.add(row(step, loss) for step, loss in rows)
    points = columns.points(30)
    assert set(points) <= set(rows)
    assert 1 <= len(points) <= 30
    assert [step for step, _ in points] == sorted(step for step, _ in points)
    assert max(loss for _, loss in points) == max(loss for _, loss in rows)
