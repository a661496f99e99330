from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert
from cockpit.model.observed import Row
from cockpit.model.run import Thresholds
from cockpit.rules.metrics.loss import loss_spike
from tests.rules.making import T0, folded, history, losses, run_spec


def alerts(rows: list[Row]) -> list[Alert]:
    return list(loss_spike(run_spec(), history(T0 + 1e5, folded(rows))))


def doubling(rows: int, every: int = 200, noise: float = 0.02) -> list[float]:
    """A loss that doubles in so many rows: the median of the newest never sees it."""
    chance = random.Random(3)
    return [2.0 * 2 ** (row / every) * chance.uniform(1 - noise, 1 + noise) for row in range(rows)]


def test_a_loss_that_climbs_slowly_is_seen() -> None:
    (alert,) = alerts(losses([2.0] * 300 + doubling(300)))
    assert (alert.id, alert.key) == ("C-11", "C-11:toy")
    assert alert.title.startswith("Loss climbing: ") and "best 2" in alert.evidence[0].text
    assert T0 + 350 < alert.since < T0 + 450, "since the level left, not since it was told"


def test_a_hundred_rows_in_a_row_are_needed() -> None:
    up = [2.0] * 100 + [2.8] * 25  # the level is up with the 26th of them
    assert alerts(losses([*up, *[2.8] * 99])) == []
    assert len(alerts(losses([*up, *[2.8] * 101]))) == 1
    assert alerts(losses([*up, *[2.8] * 70, *[2.0] * 60, *[2.8] * 90])) == []


def test_it_is_over_once_the_loss_is_back() -> None:
    up = [2.0] * 100 + [2.8] * 300
    assert len(alerts(losses([*up, *[2.0] * 9]))) == 1
    assert alerts(losses([*up, *[2.0] * 10])) == []
    assert len(alerts(losses([*up, *[2.0] * 10, *[2.8] * 160]))) == 1, "and begins again"


def test_a_loss_about_zero_is_judged_by_its_spread() -> None:
    chance = random.Random(7)
    assert alerts(losses([chance.gauss(0, 0.01) for _ in range(3000)])) == []


def test_a_loss_near_zero_moves_freely() -> None:
    memorised = [2.0] * 60 + [2.0 * 0.97**row for row in range(250)]
    low = memorised[-1]
    assert alerts(losses([*memorised, *[low * 3] * 300])) == []


def test_training_that_went_back_begins_anew() -> None:
    rows = [*losses([3.0 * 0.99**row for row in range(200)])]
    replayed = losses([3.0 * 0.99**row for row in range(120)], first_step=20)
    assert alerts([*rows, *replayed]) == []


def test_going_on_from_within_a_climb_ends_nothing() -> None:
    up = [2.0] * 100 + [2.8] * 300
    rows = losses(up)
    inside = losses([2.8] * 5, first_step=300)
    before = losses([2.0] * 5, first_step=60)
    assert len(alerts([*rows, *inside])) == 1
    assert alerts([*rows, *before]) == []


def test_its_figures_are_settings() -> None:
    run = run_spec(thresholds=Thresholds(loss_climb=1.0, climb_rows=10))
    rows = losses([2.0] * 100 + [3.0] * 300)
    assert list(loss_spike(run, history(T0 + 1e5, folded(rows, run)))) == []
    rows = losses([2.0] * 100 + [4.4] * 36)
    assert len(list(loss_spike(run, history(T0 + 1e5, folded(rows, run))))) == 1


@given(st.integers(0, 400), st.floats(0.2, 0.6))
def test_a_falling_loss_never_climbs(seed: int, power: float) -> None:
    chance = random.Random(seed)
    fall = [11 * (1 + row) ** -power * chance.uniform(0.85, 1.15) for row in range(600)]
    assert not folded(losses(fall)).climb.is_open


def swaying(rows: int, depth: float, period: float = 400.0) -> list[float]:
    return [2.0 * (1 + depth * math.sin(2 * math.pi * row / period)) for row in range(rows)]


def test_a_level_that_sways_is_no_climb_and_one_that_goes_beyond_its_sway_is() -> None:
    quiet = swaying(2000, 0.12)
    wide = swaying(1200, 0.12) + swaying(800, 0.17)
    assert alerts(losses(quiet)) == [] and alerts(losses(wide)) == []
    assert len(alerts(losses([*quiet, *doubling(300)]))) == 1


def test_how_it_once_swayed_is_forgotten() -> None:
    rows = [*swaying(1600, 0.4), *[2.0] * 12_000, *[2.9] * 200]
    assert len(alerts(losses(rows))) == 1


@given(st.integers(11, 48), st.floats(0.05, 0.7), st.integers(0, 60))
def test_the_return_from_a_dip_is_no_climb(rows: int, depth: float, offset: int) -> None:
    """SPEC C: nothing fires on a single dip, however deep and wherever it lies."""
    dip = [2.0] * (150 + offset) + [2.0 * depth] * rows + [2.0] * 200
    assert alerts(losses(dip)) == []


def test_a_low_that_was_held_is_left_by_a_climb() -> None:
    low = [2.0] * 150 + [1.0] * 120 + [2.0] * 160
    assert len(alerts(losses(low))) == 1


def test_a_climb_straight_after_a_fall_is_seen() -> None:
    fall = [8.0 * 0.98**row for row in range(80)]
    rise = [fall[-1] * 2 ** (row / 150) for row in range(400)]
    assert len(alerts(losses([*fall, *rise]))) == 1
