"""C-11, a lasting step up of the loss: little, and it stays.

The time that went into steps, by hand-made rows whose truth is known.

Two runs in one log: neither one's step is shown as the run's, unless the final step tells.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.goodput import Stepping
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import Thresholds
from cockpit.model.trend import Trend
from cockpit.rules.judge import RULES
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.metrics.progress import progress
from cockpit.rules.metrics.throughput import LISTED, SETTLED
from cockpit.rules.metrics.writers import log_mixed, mixed, without_the_other
from cockpit.rules.replay import Replay
from tests.rules.making import CADENCE, T0, folded, history, job, log, losses, run_spec, tracker

HOUR = 3600.0


def noisy(levels: Sequence[float], sigma: float = 0.012) -> list[float]:
    chance = random.Random(11)
    return [level + chance.gauss(0, sigma) for level in levels]


def alerts(rows: list[Row]) -> list[Alert]:
    past = history(T0 + 1e7, folded(rows))
    return [each for rule in RULES for each in rule(run_spec(), past) if each.id == "C-11"]


def step_at_500(height: float, after: int = 200) -> list[float]:
    return noisy([2.0] * 500 + [2.0 + height] * after)


@pytest.mark.parametrize("height", [0.1, 0.2, 0.5, 0.9])
def test_a_step_that_stays_is_a_warning(height: float) -> None:
    (alert,) = alerts(losses(step_at_500(height, 100)))
    assert alert.key == "C-11:toy:step" and alert.severity is Severity.WARNING
    assert T0 + 490 <= alert.since <= T0 + 510, "since the step, not since it was found"
    assert f"by {height / 2:.0%}".replace("%", "") in alert.title.replace("\xa0", " ")
    assert "median of the last 50 rows" in alert.evidence[0].text


@pytest.mark.parametrize("height", [0.01, 0.03])
def test_what_the_noise_can_be_is_none(height: float) -> None:
    assert alerts(losses(step_at_500(height))) == []
    assert alerts(losses(noisy([2.0] * 500 + [2.0 + 3 * height] * 200, 4 * height))) == []


def test_a_step_of_a_loss_that_still_falls_is_one() -> None:
    """Its rows lie far around their median: that is how far it has fallen, no noise."""
    falling = [2.2 + 8 / (1 + step / 112) ** 0.5 for step in range(800)]
    chance = random.Random(5)
    rows = [level * (1.2 if step > 620 else 1) for step, level in enumerate(falling)]
    (alert,) = alerts(losses([level * (1 + chance.gauss(0, 0.012)) for level in rows]))
    assert alert.key == "C-11:toy:step"
    assert alerts(losses([level * (1 + chance.gauss(0, 0.012)) for level in falling])) == []


def test_a_bump_of_fifty_rows_is_none() -> None:
    assert alerts(losses(noisy([2.0] * 500 + [2.2] * 50 + [2.0] * 300))) == []


def test_a_dip_and_its_return_are_none() -> None:
    assert alerts(losses(noisy([2.0] * 500 + [1.7] * 90 + [2.0] * 300))) == []


def test_it_is_not_swallowed_and_is_over_once_the_loss_is_back() -> None:
    levels = [2.0] * 500 + [2.3] * 2000
    assert len(alerts(losses(noisy(levels)))) == 1
    assert alerts(losses(noisy([*levels, *[2.0] * 60]))) == []


def test_after_a_day_the_new_level_is_the_usual_one() -> None:
    minutes = losses(step_at_500(0.3, 1000), every=60.0)
    assert len(alerts(minutes)) == 1
    assert alerts(losses(step_at_500(0.3, 2500), every=60.0)) == []


def with_settings(values: list[float], lr: float = 1e-3, batch: float = 512.0) -> list[Row]:
    """Rows whose settings are other ones from the step on."""
    before, after = losses(values[:500]), losses(values[500:], first_step=500)
    return [
        *(row._replace(lr=1e-3, batch=512.0) for row in before),
        *(row._replace(lr=lr, batch=batch) for row in after),
    ]


def test_a_change_of_learning_rate_or_batch_explains_it() -> None:
    values = step_at_500(0.3)
    assert len(alerts(with_settings(values))) == 1
    assert alerts(with_settings(values, lr=3e-3)) == []
    assert alerts(with_settings(values, batch=256.0)) == []
    assert len(alerts(with_settings(values, lr=1.01e-3))) == 1, "a schedule explains nothing"


def test_a_learning_rate_that_rises_row_by_row_explains_it() -> None:
    rates = [1e-4] * 500 + [1e-4 * 1.005**at for at in range(400)]
    levels = [2.0] * 500 + [2.0 + 0.3 * min(1.0, at / 60) for at in range(400)]
    rows = losses(noisy(levels))
    assert len(alerts(rows)) == 1
    assert alerts([row._replace(lr=lr) for row, lr in zip(rows, rates, strict=True)]) == []


def test_a_state_from_before_the_lowest_rate_was_kept_sees_the_change() -> None:
    rows = with_settings(step_at_500(0.3), lr=3e-3)
    trend = folded(rows[:500])
    kept = trend.loss_step.model_copy(update={"low_lr": None})
    trend = advance(trend.model_copy(update={"loss_step": kept}), rows[500:], run_spec())
    assert not trend.loss_step.is_open


def test_a_spike_says_it_alone() -> None:
    (alert,) = alerts(losses(noisy([2.0] * 500 + [3.4] * 100)))
    assert alert.key == "C-11:toy" and alert.severity is Severity.ALERT


def test_a_loss_that_sways_is_usual() -> None:
    waves = [2.0 + (0.2 if (at // 300) % 2 else 0.0) for at in range(3000)]
    found = [at for at in range(900, 3000, 50) if alerts(losses(noisy(waves[:at])))]
    assert found == []


def test_a_sway_that_ends_below_where_it_began_is_usual_from_then_on() -> None:
    """Files that are not shuffled: each epoch ends on the hard ones, and the next begins lower."""
    epochs = [2.0 * 0.95**epoch * more for epoch in range(8) for more in [1.0] * 250 + [1.15] * 150]
    found = [at for at in range(450, 3200, 50) if alerts(losses(noisy(epochs[:at])))]
    assert found == [], "the first one ends the first epoch"
    assert alerts(losses(noisy(epochs[:380])))


@pytest.mark.parametrize("rows", [20, 40, 50, 70])
def test_rows_that_are_folded_together_open_it_where_single_ones_do(rows: int) -> None:
    run = run_spec(thresholds=Thresholds(step_rows=rows))
    for before in range(500, 560, 5):
        values = losses(noisy([2.0] * before + [2.3] * 100))
        together, alone = Replay(run), Replay(run)
        together.extend(values)
        for row in values:
            alone.add(row)
        assert alone.ended() and together.ended() == alone.ended()


def test_the_title_tells_the_step_not_how_far_training_has_come_since() -> None:
    falling = [2.0 + 0.3 * (at >= 500) - 0.0004 * max(0, at - 600) for at in range(850)]
    (alert,) = alerts(losses(noisy(falling)))
    assert "by 15" in alert.title and "higher for 330 rows" in alert.evidence[0].text


def test_training_that_goes_back_to_before_it_begins_anew() -> None:
    up = losses(step_at_500(0.3, 100))
    back = losses(noisy([2.0] * 60), first_step=450)
    later = [row._replace(at=(row.at or 0) + HOUR) for row in back]
    assert len(alerts(up)) == 1 and alerts([*up, *later]) == []


def test_no_step_and_no_time_is_no_fault() -> None:
    bare = [Row(None, None, value) for value in step_at_500(0.3)]
    (alert,) = alerts(bare)
    assert alert.title.endswith("% and stays"), alert.title
    assert alert.next_action.startswith("see what changed then: data, settings")


STEPS = losses(step_at_500(0.3, 150) + noisy([2.0] * 100))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(STEPS)), max_size=6))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    trend = Trend()
    for begin, end in pairwise([0, *sorted(cuts), len(STEPS)]):
        trend = advance(trend, STEPS[begin:end], run_spec())
    assert trend.loss_step == folded(STEPS).loss_step


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


def by_turns(apart: int, other_loss: float, turns: int = 60, **more: object) -> History:
    pairs = [(Row(at, T0 + at, 2.0), Row(at + apart, T0 + at, other_loss)) for at in range(turns)]
    rows = tuple(row for pair in pairs for row in pair)
    value = log("x", mtime=T0 + turns, rows=rows)
    past = history(T0 + turns, folded(rows), job=job(), log=value, **more)
    return past.model_copy(update={"log_trend": past.trend})


def shown(past: History, final_step: int | None) -> tuple[int | None, float | None]:
    run = run_spec(final_step=final_step)
    rows = without_the_other(run, past).log.value
    assert rows is not None
    loss = next((row.loss for row in reversed(rows.rows) if row.loss is not None), None)
    return progress(run, past).step, loss


def test_whose_is_whose_is_not_known() -> None:
    past = by_turns(5000, 1.0)
    assert shown(past, 100_000) == (None, None)
    (alert,) = log_mixed(run_spec(final_step=100_000), past)
    assert (alert.id, alert.severity) == ("C-25", "warning")
    assert "at step 59 and at step 5,059" in alert.evidence[0].text


def test_the_final_step_tells_them_apart() -> None:
    past = by_turns(5000, 1.0)
    assert shown(past, 2000) == (59, 2.0)
    (alert,) = log_mixed(run_spec(final_step=2000), past)
    assert "beyond the final step of 2,000 is another run's" in alert.evidence[0].text


def test_ranks_two_counts_of_one_run_and_a_restart_are_one_run() -> None:
    run = run_spec(final_step=100_000)
    assert mixed(run, by_turns(1, 1.0)) is None, "ranks of one job"
    assert mixed(run, by_turns(5000, 2.0)) is None, "in its epoch, and over all: one loss"
    rows = [*(Row(at, T0 + at, 2.0) for at in range(99)), Row(1, T0 + 120, 2.5)]
    past = history(T0 + 130, folded(rows), job=job(), log=log("x", rows=tuple(rows)))
    assert mixed(run, past.model_copy(update={"log_trend": past.trend})) is None


def test_where_a_tracker_tells_the_steps_the_log_is_not_asked() -> None:
    past = by_turns(5000, 1.0, tracker=tracker(step=59, last_step_at=T0 + 59))
    own = folded([Row(at, T0 + at, 2.0) for at in range(60)])
    assert mixed(run_spec(), past.model_copy(update={"trend": own})) is None
