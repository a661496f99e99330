"""The time that went into steps, by hand-made rows whose truth is known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.goodput import Stepping
from cockpit.model.observed import Row
from cockpit.rules.metrics.throughput import LISTED, SETTLED
from tests.rules.making import CADENCE, T0, folded, losses


def stepped(rows: list[Row]) -> Stepping:
    return folded(rows).stepping


def productive(found: Stepping) -> float:
    return found.productive_s + found.open_s


def all_of(found: Stepping) -> float:
    listed = sum(each.until - each.since for each in found.breaks)
    lost = found.rework_s + found.spoilt_s + found.slow_s + found.pauses_s + found.unlisted_s
    return productive(found) + lost + listed


def test_steady_steps_are_all_productive() -> None:
    found = stepped(losses([2.0] * 600))
    assert (productive(found), found.rework_s, found.slow_s, found.breaks) == (599.0, 0, 0, ())


def test_steps_that_are_trained_again_are_rework_until_new_ground() -> None:
    first = losses([2.0] * 101)  # to step 100
    again = [Row(step, T0 + 400.0 + (step - 61), 2.0) for step in range(61, 151)]
    found = stepped([*first, *again])
    assert (found.steps_again, found.backs) == (40, 1)  # 61 to 100
    assert found.rework_s == pytest.approx(39.0)  # 61 is reached at once, by the break's end
    assert productive(found) == pytest.approx(150.0)
    (one,) = found.breaks
    assert (one.since, one.until, one.step, one.back) == (T0 + 100.0, T0 + 400.0, 100, True)


def test_steps_without_a_finite_loss_are_lost_until_they_are_trained_again() -> None:
    first = losses([2.0] * 61 + [math.nan] * 40)  # sound to step 60, spoilt to step 100
    found = stepped(first)
    assert (productive(found), found.spoilt_s, found.steps_spoilt) == (60.0, 40.0, 40)
    again = [Row(step, T0 + 400.0 + (step - 51), 2.0) for step in range(51, 151)]
    found = stepped([*first, *again])
    assert (found.steps_again, found.steps_spoilt, found.high) == (50, 0, 150)  # 51 to 100
    assert found.rework_s == pytest.approx(9.0)  # 52 to 60: the rest was never trained
    assert productive(found) == pytest.approx(60.0 + 90.0)
    assert all_of(found) == pytest.approx((again[-1].at or 0.0) - T0)


def test_one_step_without_a_finite_loss_spoils_that_step_alone() -> None:
    found = stepped(losses([2.0] * 50 + [math.inf] + [2.0] * 50))
    assert (productive(found), found.spoilt_s, found.steps_spoilt) == (99.0, 1.0, 1)
    assert (found.rework_s, found.high) == (0.0, 100)


def test_spoilt_steps_behind_sound_ones_are_lost_once_when_a_resume_goes_back_over_them() -> None:
    first = losses([2.0] * 101 + [math.nan] * 50 + [2.0] * 50)  # 101 to 150 spoilt, to step 200
    assert stepped(first).steps_spoilt == 50
    for begin, left in ((90, 0), (120, 19), (160, 50)):  # what it leaves behind stays lost
        again = [Row(begin + n, T0 + 400.0 + n, 2.0) for n in range(200)]
        found = stepped([*first, *again])
        assert (found.steps_again, found.steps_spoilt) == (200 - begin + 1, left)


def test_steps_between_losses_that_are_no_number_are_not_sound_for_telling_none() -> None:
    rows = [
        Row(n, T0 + n, (2.0 if n < 100 else math.nan) if n % 10 == 0 else None) for n in range(181)
    ]
    found = stepped(rows)  # a loss every ten steps: NaN from 100 on
    assert (productive(found), found.spoilt_s, found.steps_spoilt) == (99.0, 81.0, 81)
    again = [Row(95 + n, T0 + 400.0 + n, None) for n in range(5)]  # nobody has told of a loss yet
    assert stepped([*rows, *again]).spoilt_s == 81.0


def test_a_loss_in_the_second_row_of_its_step_spoils_the_steps_after_it() -> None:
    rows = []
    for n in range(101):
        rows += [Row(n, T0 + n), Row(n, T0 + n + 0.1, 2.0 if n < 50 else math.nan)]
    found = stepped(rows)
    assert found.steps_spoilt == 100 - 50


def test_two_writers_of_one_tracker_begin_once_not_at_every_turn() -> None:
    rows = losses([2.0] * 101)  # to step 100
    for turn in range(60):  # a second one began at 40: now the two take turns
        at = T0 + 100.5 + turn
        rows += [Row(40 + turn, at, 2.0), Row(101 + turn, at + 0.5, 2.0)]
    found = stepped(rows)
    assert (found.backs, found.high) == (1, 160)
    assert found.steps_again == 100 - 40 + 1
    assert productive(found) == pytest.approx(100 + 60 * 0.5)
    assert found.rework_s == pytest.approx(59 * 0.5)
    assert all_of(found) == pytest.approx((rows[-1].at or 0.0) - T0)


@pytest.mark.parametrize("other", [math.nan, 2.0])
def test_what_one_of_two_writers_spoils_is_counted_once_not_at_every_turn(other: float) -> None:
    rows = losses([2.0] * 100)  # to step 99
    at = rows[-1].at or 0.0
    for turn in range(0, 200, 5):  # one begins to log NaN at 150 while another one is at 100
        for begin, loss in ((150, math.nan), (100, other)):
            for step in range(begin + turn, begin + turn + 5):
                at += 1.0
                rows.append(Row(step, at, loss))
    found = stepped(rows)
    assert 0 < found.steps_spoilt <= 350 - 100  # none above 349, none that was sound before
    assert all_of(found) == pytest.approx(at - T0)


def test_a_long_break_is_listed_and_a_short_one_added_up() -> None:
    rows = losses([2.0] * 50)
    rows += [Row(50 + n, T0 + 49.0 + 1.0 + CADENCE / 2 + n, 2.0) for n in range(50)]
    rows += [Row(100 + n, T0 + 99.0 + CADENCE * 3 + n, 2.0) for n in range(50)]
    found = stepped(rows)
    assert found.pauses_s == pytest.approx(CADENCE / 2)
    (one,) = found.breaks
    assert not one.back
    assert all_of(found) == pytest.approx((rows[-1].at or 0.0) - T0)


def slow_rows(factor: float, windows: int) -> list[Row]:
    """Ten windows at a step a second, then some in which each takes ``factor`` seconds."""
    rows = losses([2.0] * int(10 * CADENCE + 1))
    last = rows[-1].at or 0.0
    count = int(windows * CADENCE / factor)
    rows += [Row(int(10 * CADENCE) + n, last + n * factor, 2.0) for n in range(1, count + 1)]
    return rows


def test_what_slow_windows_would_not_have_needed_is_slow() -> None:
    found = stepped(slow_rows(2.0, 10))
    assert found.slow_s == pytest.approx(CADENCE * 10 / 2, rel=0.1)
    assert stepped(slow_rows(1.2, 10)).slow_s == 0.0  # within throughput_drop


@pytest.mark.parametrize("throughput", [None, 40.0])
def test_steps_that_all_take_five_times_as_long_are_slow_and_lost_only_once(
    throughput: float | None,
) -> None:
    rows = slow_rows(5.0, 10)
    at = 10 * CADENCE
    rows = [
        row._replace(throughput=throughput and throughput / (5 if (row.step or 0) > at else 1))
        for row in rows
    ]  # fmt: skip
    found = stepped(rows)
    lost = found.slow_s + found.pauses_s + sum(b.until - b.since for b in found.breaks)
    assert lost == pytest.approx(CADENCE * 10 * 4 / 5, rel=0.12)


def test_a_slowness_that_stays_is_the_new_level() -> None:
    found = stepped(slow_rows(2.0, SETTLED * 2))
    assert found.slow_s == pytest.approx(CADENCE * SETTLED / 2, rel=0.05)


def test_a_larger_batch_at_the_same_throughput_is_not_slow() -> None:
    rows = [row._replace(throughput=1000.0) for row in slow_rows(2.0, 10)]
    assert stepped(rows).slow_s == 0.0


def test_steps_that_jitter_lose_nothing() -> None:
    dice = random.Random(7)
    at, rows = T0, []
    for step in range(3000):
        rows.append(Row(step, at, 2.0))
        at += dice.choice((0.2, 1.8))  # an asynchronous loop logs in pairs
    found = stepped(rows)
    assert found.slow_s + found.pauses_s + found.rework_s == 0.0
    assert found.breaks == ()


def test_rows_without_a_time_or_of_an_old_step_say_nothing() -> None:
    rows = losses([2.0] * 20)
    odd = [*rows[:10], Row(None, T0 + 9.5, 2.0), Row(3, T0 + 9.7), *rows[10:], Row(20, None, 2.0)]
    assert stepped(odd) == stepped(rows)


def test_breaks_are_bounded_and_none_is_lost() -> None:
    rows, at = losses([2.0] * 20), T0 + 20.0
    for step in range(20, 20 + 2 * LISTED):
        at += CADENCE * 2
        rows.append(Row(step, at, 2.0))
    found = stepped(rows)
    assert len(found.breaks) == LISTED
    assert found.unlisted_s > 0
    assert all_of(found) == pytest.approx(at - T0)


MOVES = st.lists(
    st.tuples(st.integers(-30, 20), st.floats(0.0, 300.0, allow_nan=False)), max_size=60
)


@given(MOVES)
@example([(-1, 0.0), (3, 0.0), (-2, 0.0), (4, 0.0), (-1, 1.0)])
@example([(1, 60.0), (-3, 0.0), (-2, 0.0), (2, 0.0), (-2, 0.0), (4, 0.0), (-1, 4.0)])
def test_whatever_comes_the_parts_are_the_whole(moves: list[tuple[int, float]]) -> None:
    step, at, rows = 100, T0, [Row(100, T0, 2.0)]
    for by, took in moves:
        step, at = max(0, step + by), at + took
        rows.append(Row(step, at, 2.0))
    found = stepped(rows)
    assert found.at is None or all_of(found) == pytest.approx(found.at - T0, abs=1e-3)
    parts = (found.rework_s, found.slow_s, found.pauses_s, productive(found))
    assert all(part >= -1e-6 for part in parts)
