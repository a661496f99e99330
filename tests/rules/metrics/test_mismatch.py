"""C-12: what a restarted training logs, beside what the instance before it had logged."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from cockpit.model.alert import Alert
from cockpit.model.observed import Row
from cockpit.rules.metrics.resume import resume_mismatch
from tests.rules.making import T0, checkpoint, checkpoints, folded, history, job, run_spec


def loss_at(step: int) -> float:
    """A loss that falls as losses do, with noise that only the step decides."""
    return 2 + 6 * math.pow(1 + step / 50, -0.6) + random.Random(step).uniform(-0.02, 0.02)


def rows(
    first: int, last: int, at: float, loss: Callable[[int], float] = loss_at, every: int = 1
) -> list[Row]:
    return [Row(step, at + step, loss(step)) for step in range(first, last, every)]


def alerts(found: list[Row], started_at: float = T0, **facets: object) -> list[Alert]:
    past = history(T0 + 1e6, folded(found), job=job(started_at=started_at), **facets)
    return list(resume_mismatch(run_spec(), past))


def shifted(by: float, until: float = math.inf) -> Callable[[int], float]:
    return lambda step: loss_at(step) + (by if step < until else 0.0)


FORMER = rows(0, 1000, T0)
LATER = T0 + 500


def test_a_resume_that_repeats_what_was_logged_is_well() -> None:
    assert alerts([*FORMER, *rows(900, 1800, LATER)]) == []


def test_three_replayed_steps_that_differ_open_it_and_two_do_not() -> None:
    two = [each for n in range(900, 1000) if (each := shifted(0.01 if n < 902 else 0.0)(n))]
    same = [Row(900 + n, LATER + n, loss) for n, loss in enumerate(two)]
    assert alerts([*FORMER, *same]) == []
    (found,) = alerts([*FORMER, *rows(900, 950, LATER, shifted(0.01))])
    assert (found.id, found.severity.value, found.confidence) == ("C-12", "alert", "sure")
    assert found.since == LATER + 900 and found.title.startswith("Resumed at step 900")
    assert "step 999" in found.evidence[0].text and "0.002" in found.evidence[1].text


def test_a_difference_within_the_limit_is_none() -> None:
    assert alerts([*FORMER, *rows(900, 1000, LATER, shifted(0.0019))]) == []


def test_what_was_rounded_differs_only_by_more_than_its_last_digit() -> None:
    coarse = [row._replace(loss=round(row.loss or 0.0, 2)) for row in FORMER]
    near = rows(900, 1000, LATER, lambda step: round(loss_at(step) + 0.003, 2))
    far = rows(900, 1000, LATER, lambda step: round(loss_at(step) + 0.05, 2))
    assert alerts([*coarse, *near]) == []
    assert len(alerts([*coarse, *far])) == 1


def test_a_long_way_back_is_known_here_and_there() -> None:
    former = rows(0, 20_000, T0, every=5)
    again = rows(5_000, 12_000, T0 + 50_000, every=5)
    off = rows(5_000, 12_000, T0 + 50_000, shifted(-0.02), every=5)
    assert alerts([*former, *again]) == []
    assert len(alerts([*former, *off])) == 1


def beyond(by: float, until: int = 1050) -> list[Row]:
    return [*FORMER, *rows(900, 1000, LATER), *rows(1000, until, LATER, shifted(by))]


def test_beyond_the_replayed_steps_the_former_trend_is_the_measure() -> None:
    assert alerts(beyond(0.1, until=1049)) == [], "fifty rows are needed"
    (found,) = alerts(beyond(0.1))
    assert "above the previous trend" in found.title
    assert "limit 1.0 %" in found.evidence[-1].text
    assert alerts(beyond(0.01)) == []
    assert "below" in alerts(beyond(-0.3))[0].title


def test_it_closes_where_the_loss_comes_back_and_stays_where_it_does_not() -> None:
    back = [*FORMER, *rows(900, 1000, LATER), *rows(1000, 1400, LATER, shifted(0.2, until=1200))]
    assert len(alerts(back[:-250])) == 1 and alerts(back) == []
    away = [*FORMER, *rows(900, 1000, LATER), *rows(1000, 4000, LATER, shifted(0.2))]
    assert len(alerts(away)) == 1


@pytest.mark.parametrize("seed", [38, 48, 53, 58, 96, 110])
def test_a_loss_that_swings_slowly_opens_nothing_that_closes_by_itself(seed: int) -> None:
    """Fifty rows may lie a little off the trend, to either side, without any restart."""
    drawn, swing, seen = random.Random(seed), 0.0, []
    for step in range(1500):
        swing = 0.95 * swing + drawn.gauss(0, 0.04)
        at = T0 + step + (120 if step >= 1000 else 0)
        seen.append(Row(step, at, 2 + 6 * math.pow(1 + step / 50, -0.6) + swing))
    looks = range(1050, 1500, 10)
    assert not any(alerts(seen[:count], T0 + 1100) for count in looks)


def test_only_the_next_steps_are_held_against_it() -> None:
    late = [*FORMER, *rows(900, 1600, LATER), *rows(1600, 1900, LATER, shifted(0.5))]
    assert alerts(late) == []


def test_noise_is_no_mismatch() -> None:
    def noisy(salt: int) -> Callable[[int], float]:
        return lambda step: loss_at(step) * math.exp(random.Random(step + salt).gauss(0, 0.3))

    assert (
        alerts([*rows(0, 1000, T0, noisy(0)), *rows(1001, 1500, LATER, noisy(0))], T0 + 1250) == []
    )


def test_a_restart_that_replays_nothing_is_told_by_its_job() -> None:
    went_on = [*FORMER, *rows(1000, 1100, LATER, shifted(0.2))]
    assert alerts(went_on) == [], "an evaluation makes a pause too"
    (found,) = alerts(went_on, started_at=T0 + 1400)
    assert found.confidence == "likely" and found.since == LATER + 1000
    assert alerts(went_on, started_at=T0 + 3000) == []


def test_a_start_from_scratch_is_not_compared() -> None:
    assert alerts([*FORMER, *rows(0, 300, LATER, shifted(0.5))]) == []


def test_a_step_that_counts_within_an_epoch_is_not_compared() -> None:
    epochs: list[Row] = []
    for turn, first in enumerate((2, 10, 4, 8)):
        start = T0 + 1000 * turn
        epochs += rows(first, 300, start, shifted(-0.3 * turn), every=10)
    assert alerts(epochs) == []


def test_going_back_before_a_spike_does_not_want_the_spike_again() -> None:
    spiked = [*FORMER, *rows(1000, 1060, T0, shifted(9.0))]
    assert alerts([*spiked, *rows(900, 1300, LATER)]) == []


def test_one_restart_is_one_alert() -> None:
    off = [*FORMER, *rows(900, 950, LATER, shifted(0.01))]
    saved = checkpoints(checkpoint(960, T0 + 961))
    assert alerts(off, LATER + 890, checkpoints=saved) == [], "it loaded another checkpoint"
    assert alerts(off, LATER + 890, checkpoints=checkpoints(checkpoint(890, T0 + 891)))


def interleaved(lead: int, rows_each: int) -> list[Row]:
    """Two writers by turns: one goes on from step 1000, the other ``lead`` steps away from it."""
    turns = range(0, 200, rows_each)
    mine = [rows(1000 + n, 1000 + n + rows_each, LATER) for n in turns]
    other = [rows(1000 + lead + n, 1000 + lead + n + rows_each, LATER, shifted(0.1)) for n in turns]
    return [row for pair in zip(mine, other, strict=True) for chunk in pair for row in chunk]


@pytest.mark.parametrize("rows_each", [1, 2, 8, 20])
def test_two_writers_by_turns_are_no_restarts(rows_each: int) -> None:
    """SPEC C: one cause, one alert; that two write is C-25."""
    for lead, most in ((40, 0), (-60, 1)):
        found = interleaved(lead, rows_each)
        keys = {
            each.key
            for end in range(0, len(found), 16)
            for each in alerts([*FORMER, *found[: end + 1]])
        }
        assert len(keys) <= most, f"{lead}: {sorted(keys)}"


def test_a_shift_like_the_stairs_of_its_schedule_is_unknown() -> None:
    def stairs(step: int, height: float) -> float:
        return (2.0 + height * (step // 400)) * (1 + random.Random(step).uniform(-0.01, 0.01))

    def restarted(height: float) -> list[Alert]:
        former = rows(0, 1190, T0, lambda step: stairs(step, height))
        return alerts([*former, *rows(1180, 1400, LATER, lambda step: stairs(step, height))])

    assert restarted(0.2) == [], "it rose by as much at 400 and 800, and nobody restarted it"
    unlike = rows(1180, 1400, LATER, lambda step: 2.0 * (1.4 if step > 1190 else 1.0))
    former = rows(0, 1190, T0, lambda step: 2.0 + random.Random(step).uniform(-0.01, 0.01))
    assert len(alerts([*former, *unlike])) == 1
