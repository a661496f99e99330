from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert
from cockpit.model.observed import Row
from cockpit.rules.metrics.loss import loss_spike
from tests.rules.making import T0, folded, history, losses, run_spec


def alerts(rows: list[Row]) -> list[Alert]:
    return list(loss_spike(run_spec(), history(T0 + 1e5, folded(rows))))


def test_ten_rows_half_above_the_trend_are_a_spike() -> None:
    (alert,) = alerts(losses([2.0] * 50 + [3.1] * 10))
    assert (alert.id, alert.key, alert.since) == ("C-11", "C-11:toy", T0 + 50)
    assert "step 50" in alert.evidence[0].text
    assert "peak 3.1; trend 2 " in alert.evidence[1].text


def test_nine_are_not_nor_are_ten_with_a_calm_row_between() -> None:
    assert alerts(losses([2.0] * 50 + [3.1] * 9)) == []
    assert alerts(losses([2.0] * 50 + [3.1] * 9 + [2.0] + [3.1] * 9)) == []


def test_just_half_above_is_not_more_than_half() -> None:
    assert alerts(losses([2.0] * 50 + [3.0] * 30)) == []


def test_rows_without_a_loss_do_not_break_the_row() -> None:
    spike: list[float | None] = [x for _ in range(10) for x in (3.5, None)]
    assert len(alerts(losses([2.0] * 50 + spike))) == 1


def test_it_lasts_as_long_as_the_loss_stays_up_and_closes_after_as_many_calm_rows() -> None:
    up = [2.0] * 50 + [4.0] * 3000
    assert len(alerts(losses(up))) == 1
    assert len(alerts(losses([*up, *[2.0] * 9]))) == 1
    assert alerts(losses([*up, *[2.0] * 10])) == []


def test_early_training_falls_and_is_no_spike() -> None:
    chance = random.Random(5)
    fall = [11 * (1 + i) ** -0.35 * chance.uniform(0.9, 1.1) for i in range(1500)]
    assert alerts(losses(fall)) == []


def test_a_spike_in_the_fall_is_found() -> None:
    fall = [11 * (1 + i) ** -0.35 for i in range(300)]
    assert len(alerts(losses([*fall, *[9.0] * 12]))) == 1


def test_a_loss_about_zero_or_below_is_judged_by_its_own_spread() -> None:
    chance = random.Random(7)
    about_zero = [chance.gauss(0, 0.01) for _ in range(2000)]
    below = [-3 + chance.gauss(0, 0.05) for _ in range(300)]
    assert alerts(losses(about_zero)) == [] == alerts(losses(below))
    assert len(alerts(losses([*about_zero, *[1.0] * 10]))) == 1
    assert len(alerts(losses([*below, *[-1.0] * 10]))) == 1


@given(st.integers(30, 400), st.floats(1e-6, 1e6), st.floats(1.6, 50))
def test_a_spike_is_found_at_any_scale(before: int, scale: float, factor: float) -> None:
    assert len(alerts(losses([scale] * before + [scale * factor] * 10))) == 1


@given(st.lists(st.floats(0.8, 1.2), min_size=30, max_size=300), st.integers(1, 9))
def test_short_bumps_never_fire(level: list[float], bump: int) -> None:
    bumped = [x * (5 if i % 20 >= 20 - bump else 1) for i, x in enumerate(level) if i > 20]
    assert alerts(losses([1.0] * 21 + bumped)) == []


def falling(rows: int, first: float = 40.0, last: float = 10.0) -> list[float]:
    return [first * (last / first) ** (row / rows) for row in range(rows)]


def test_a_short_run_that_turns_around_is_seen_though_it_is_below_where_it_began() -> None:
    rows = [*falling(40), *(10.0 * 1.02**row for row in range(40))]
    assert alerts(losses(rows[:72])) == []
    (alert,) = alerts(losses(rows))
    assert alert.since == T0 + 63, "the first row half above the level of its best five rows"


def test_in_a_short_noisy_run_its_noise_gives_the_limit() -> None:
    chance = random.Random(11)
    noisy = [loss * chance.gammavariate(4, 0.25) for loss in falling(150, 4.0, 2.0)]
    assert alerts(losses(noisy)) == []


def test_a_loss_of_both_signs_must_leave_its_spread_far_behind() -> None:
    chance = random.Random(5)
    around = [chance.gauss(0, 1) for _ in range(300)]
    assert alerts(losses([*around, *[2.5] * 30])) == []
    assert len(alerts(losses([*around, *[6.0] * 30]))) == 1
