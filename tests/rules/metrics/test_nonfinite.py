from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import Row
from cockpit.rules.metrics.nonfinite import non_finite
from tests.rules.making import T0, folded, history, log, losses, run_spec, tracker

NAN, INF = float("nan"), float("inf")


def alerts(rows: list[Row], **facets: object) -> list[Alert]:
    return list(non_finite(run_spec(), history(T0 + 1e5, folded(rows), **facets)))


@pytest.mark.parametrize(("bad", "word"), [(NAN, "NaN"), (INF, "inf"), (-INF, "-inf")])
def test_one_row_is_enough_and_is_named(bad: float, word: str) -> None:
    (alert,) = alerts(losses([2.0] * 5 + [bad] + [2.0]))
    assert (alert.id, alert.severity, alert.since) == ("C-09", Severity.CRITICAL, T0 + 5)
    assert alert.title == f"Loss is {word} at step 5"
    assert "do not relaunch" in alert.next_action


@given(st.integers(0, 300), st.integers(0, 99), st.sampled_from([NAN, INF, -INF]))
def test_a_nan_anywhere_is_found(before: int, after: int, bad: float) -> None:
    (alert,) = alerts(losses([2.0] * before + [bad] + [2.0] * after))
    assert alert.since == T0 + before


def test_it_closes_after_a_hundred_finite_rows_and_not_before() -> None:
    assert len(alerts(losses([2.0, NAN] + [2.0] * 99))) == 1
    assert alerts(losses([2.0, NAN] + [2.0] * 100)) == []


def test_it_closes_sooner_when_training_goes_on_from_an_earlier_step() -> None:
    broken = losses([2.0] * 50 + [NAN] * 5)
    assert len(alerts(broken + losses([2.0] * 9, first_step=30))) == 1
    assert alerts(broken + losses([2.0] * 10, first_step=30)) == []


def test_a_rollback_into_the_same_nan_stays_open() -> None:
    broken = losses([2.0] * 50 + [NAN] * 5)
    (alert,) = alerts(broken + losses([2.0] * 3 + [NAN], first_step=47))
    assert "6 rows up to step 50" in alert.evidence[0].text


def grads(values: list[float | None]) -> list[Row]:
    return [Row(i, T0 + i, 2.0, None, value) for i, value in enumerate(values)]


def test_another_metric_needs_three_rows_in_a_row_that_carry_it() -> None:
    assert alerts(grads([1.0, NAN, NAN, 1.0, NAN, NAN])) == []
    (alert,) = alerts(grads([1.0, NAN, None, NAN, None, NAN]))
    assert alert.title == "Grad norm is NaN at step 1"


def test_the_log_is_looked_at_too() -> None:
    row = Row(7, T0 + 7, NAN)
    (alert,) = alerts(losses([2.0] * 50), log=log("step 7 loss nan", rows=(row,)))
    assert alert.since == T0 + 7


def test_the_newest_value_counts_until_its_row_has_been_folded() -> None:
    newest = tracker(step=60, loss=NAN, last_step_at=T0 + 60)
    assert len(alerts(losses([2.0] * 50), tracker=newest)) == 1
    healed = losses([2.0] * 60 + [NAN] + [2.0] * 100)
    assert alerts(healed, tracker=newest) == []


def overflowing(skips: list[float | None]) -> list[Row]:
    good = [Row(step, T0 + step, 2.0, None, 1.0, skipped=skips[0]) for step in range(5)]
    bad = [Row(5 + n, T0 + 5 + n, 2.0, None, INF, skipped=s) for n, s in enumerate(skips[1:])]
    return [*good, *bad]


def test_gradients_that_overflow_in_skipped_steps_are_no_finding() -> None:
    assert folded(overflowing([0.0, 1.0, 1.0, 1.0])).grad_finite.finding is None
    assert folded(overflowing([0.0, 0.0, 0.0, 0.0])).grad_finite.finding is not None
    assert folded(overflowing([None, None, None, None])).grad_finite.finding is not None


def test_a_count_of_all_skips_is_no_flag_until_it_rises() -> None:
    assert folded(overflowing([3.0, 4.0, 5.0, 6.0])).grad_finite.finding is None
    assert folded(overflowing([3.0, 3.0, 3.0, 3.0])).grad_finite.finding is not None


def test_a_lost_loss_is_one_whether_its_step_was_skipped_or_not() -> None:
    rows = [Row(0, T0, 2.0), Row(1, T0 + 1, NAN, skipped=1.0)]
    assert folded(rows).loss_finite.finding is not None
