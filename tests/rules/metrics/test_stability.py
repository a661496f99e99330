from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.alert import Alert
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec, Thresholds
from cockpit.rules.metrics.stability import unstable
from tests.rules.making import T0, folded, history, job, run_spec

WARM = 200


def norms(values: Iterable[float | None], name: str = "grad_norm", first: int = WARM) -> list[Row]:
    changes: list[dict[str, Any]] = [{name: value} for value in values]
    return [Row(first + n, T0 + n, 2.0)._replace(**each) for n, each in enumerate(changes)]


def noisy(count: int, level: float = 1.0, sigma: float = 0.1, seed: int = 7) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(level, sigma) for _ in range(count)]


def alerts(rows: list[Row], run: RunSpec | None = None) -> list[Alert]:
    spec = run or run_spec()
    return list(unstable(spec, history(T0 + len(rows), folded(rows, spec), job=job())))


def test_ten_rows_beyond_six_robust_deviations_open_it_and_nine_do_not() -> None:
    assert alerts(norms(noisy(300) + [2.0] * 9)) == []
    (found,) = alerts(norms(noisy(300) + [2.0] * 10))
    assert (found.id, found.severity.value, found.since) == ("C-10", "alert", T0 + 300)
    assert "10 logged rows beyond a robust z-score of 6 since step 500" in found.evidence[0].text


def test_a_score_below_six_opens_nothing() -> None:
    assert alerts(norms(noisy(300) + [1.5] * 50)) == []


def test_it_is_over_after_as_many_usual_rows() -> None:
    gone = noisy(300) + [3.0] * 30
    assert alerts(norms(gone + noisy(9, seed=3)))
    assert alerts(norms(gone + noisy(10, seed=3))) == []


def test_what_has_stood_for_ten_windows_is_usual() -> None:
    run = run_spec(thresholds=Thresholds(instability_window=60))
    assert alerts(norms(noisy(300) + noisy(500, 3.0)), run)
    assert alerts(norms(noisy(300) + noisy(700, 3.0)), run) == []


def test_the_warm_up_is_not_judged() -> None:
    rows = norms(noisy(150) + [9.0] * 40, first=0)
    assert alerts(rows) == []
    assert alerts(rows, run_spec(thresholds=Thresholds(warmup_steps=20)))


def test_a_clipped_norm_may_move_a_little() -> None:
    assert alerts(norms([1.0] * 300 + [1.25] * 50)) == []
    assert alerts(norms([1.0] * 300 + [1.4] * 50))


@pytest.mark.parametrize(
    "metric, values, opens",
    [
        ("z_loss", [5.0] * 10, True),
        ("router_loss", [5.0] * 10, True),
        ("router_loss", [0.01] * 10, False),
        ("router_entropy", [0.01] * 10, True),
        ("router_entropy", [5.0] * 10, False),
    ],
)
def test_each_metric_goes_wrong_in_its_own_direction(
    metric: str, values: list[float], opens: bool
) -> None:
    assert bool(alerts(norms(noisy(300) + values, metric))) is opens


ENTROPY = noisy(300, 5.945, 0.001)


@pytest.mark.parametrize("level", [5.9, 5.0, 4.5])
def test_a_router_that_leaves_its_bound_is_seen(level: float) -> None:
    (found,) = alerts(norms(ENTROPY + noisy(10, level, 0.001), "router_entropy"))
    assert "router entropy" in found.title
    balance = norms(noisy(300, 1.01, 0.001) + noisy(10, 1.2, 0.01), "router_loss")
    assert len(alerts(balance)) == 1


def test_a_router_whose_entropy_is_rounded_or_drifts_is_well() -> None:
    rounded = [round(value, 3) for value in ENTROPY]
    assert alerts(norms([*[5.945] * 300, *rounded], "router_entropy")) == []
    drifts = [value - 0.0005 * at for at, value in enumerate(noisy(2000, 5.9, 0.004))]
    assert alerts(norms(drifts, "router_entropy")) == []


def test_two_metrics_are_one_alert() -> None:
    rows = norms(noisy(300) + [4.0] * 10)
    (found,) = alerts([row._replace(z_loss=row.grad_norm) for row in rows])
    assert [line.text.partition(":")[0] for line in found.evidence] == ["grad norm", "z-loss"]


def test_going_back_to_before_it_ends_it() -> None:
    bad = norms(noisy(300) + [4.0] * 30)
    assert alerts([*bad, *norms(noisy(5), first=WARM + 320)]), "still within"
    assert alerts([*bad, *norms(noisy(5), first=WARM + 250)]) == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_heavy_tails_open_nothing(seed: int) -> None:
    draw = random.Random(seed)
    assert alerts(norms(math.exp(draw.gauss(0, 0.8)) for _ in range(1000))) == []
