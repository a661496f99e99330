from __future__ import annotations

from cockpit.model.observed import Row
from tests.rules.making import T0, folded, losses


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


def test_a_row_that_repeats_a_step_is_no_new_step() -> None:
    pace = folded([*losses([1.0] * 5), Row(4, T0 + 900, 1.0)]).pace
    assert pace.at == T0 + 4


def test_rows_without_any_metric_still_step() -> None:
    pace = folded([Row(i, T0 + i) for i in range(5)]).pace
    assert (pace.step, pace.at, pace.usual_step_s) == (4, T0 + 4, 1.0)


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
