"""C-11, a lasting step up of the loss: little, and it stays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import Row
from cockpit.model.run import Thresholds
from cockpit.model.trend import Trend
from cockpit.rules.judge import RULES
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.replay import Replay
from tests.rules.making import T0, folded, history, losses, run_spec

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
