"""Steps per second and seconds per step, from the rows' own times."""

from __future__ import annotations

import pytest

from cockpit.model.observed import Row
from cockpit.sources.wandb_rows import StepRate, usual_step_seconds


def rates(*rows: tuple[int | None, float | None]) -> list[float | None]:
    return [row.throughput for row in StepRate().fill(Row(step, at) for step, at in rows)]


def test_steps_per_second_between_rows() -> None:
    assert rates((0, 100.0), (10, 105.0), (11, 106.0)) == [None, 2.0, 1.0]


def test_a_row_at_the_same_step_or_time_says_nothing() -> None:
    assert rates((0, 0.0), (0, 1.0), (1, 2.0), (2, 2.0), (4, 5.0)) == [None, None, 0.5, None, 1.0]


def test_a_resumed_run_starts_anew() -> None:
    assert rates((100, 10.0), (50, 90.0), (51, 92.0)) == [None, None, 0.5]
    assert rates((5, 10.0), (6, 9.0), (7, 10.0)) == [None, None, 1.0]


def test_rows_without_step_or_time_are_passed_over() -> None:
    assert rates((1, 1.0), (None, 2.0), (2, None), (3, 5.0)) == [None, None, None, 0.5]


def test_the_usual_time_of_a_step_is_not_moved_by_one_pause() -> None:
    rows = [Row(step, step * 2.0 + (600.0 if step > 7 else 0.0)) for step in range(12)]
    assert usual_step_seconds(rows) == pytest.approx(2.0)
    assert usual_step_seconds(rows[:1]) is None
