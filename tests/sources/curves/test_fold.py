"""A metric folded: nothing is lost of extremes, counts and restarts, and all of it is bounded."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from cockpit.attach.wire import as_text
from cockpit.model.curve import Curve, Curves, Part, Restart, Span, curves_in, step_at
from cockpit.sources.curves.fold import CurveFold

values = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])
rows = st.lists(st.tuples(st.integers(0, 3000), values), max_size=120)


def folded(logged: list[tuple[int, float]], span: Span | None = None, most: int = 16) -> Curve:
    fold = CurveFold(most)
    for at, (step, value) in enumerate(logged):
        fold.add(step, 1000.0 + at, value)
    return fold.curve("loss", None, span or Span(), 1.0)


@given(rows, st.integers(1, 40))
def test_property_extremes_and_counts_survive_any_merge(
    logged: list[tuple[int, float]], most: int
) -> None:
    curve = folded(logged, Span(most=most))
    parts: list[Part] = [*curve.parts, *curve.former]
    assert len(curve.parts) <= most and len(curve.former) <= most
    finite = [value for _, value in logged if math.isfinite(value)]
    assert sum(part.finite for part in parts) == len(finite)
    assert sum(part.nonfinite for part in parts) == len(logged) - len(finite)
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    assert (min(lows, default=0), max(highs, default=0)) == (
        min(finite, default=0),
        max(finite, default=0),
    )
    assert all(part.low <= part.mean <= part.high for part in parts if part.finite)  # type: ignore[operator]


def test_what_is_trained_again_is_kept_apart() -> None:
    logged = [(step, 5.0) for step in range(60)] + [(step, 1.0) for step in range(20, 40)]
    curve = folded(logged, most=500)
    assert curve.restarts == (Restart(20, 1060.0),)
    assert [part.mean for part in curve.parts if part.first >= 20] == [1.0] * 20
    assert [(part.first, part.mean) for part in curve.former] == [(n, 5.0) for n in range(20, 60)]
    assert curve.extent == (0, 59) and curve.newest is not None and curve.newest.step == 39


def test_non_numbers_that_go_on_to_the_newest_row_are_told_apart_from_one_that_passed() -> None:
    passed = folded([(0, 1.0), (1, math.nan), (2, 1.0)])
    assert passed.broken is None
    broken = folded([(0, 1.0), (1, math.nan), (2, 1.0), (3, math.inf), (4, math.nan)])
    assert broken.broken is not None and broken.broken.step == 3 and broken.broken_rows == 2


def test_an_extent_is_of_steps_or_of_times() -> None:
    logged = [(step, float(step)) for step in range(100)]
    by_step = folded(logged, Span(low=10, high=19), most=500)
    assert [part.first for part in by_step.parts] == list(range(10, 20))
    by_time = folded(logged, Span(by_time=True, low=1090.0, high=1094.0), most=500)
    assert [part.first for part in by_time.parts] == list(range(90, 95))
    assert by_time.extent == (0, 99) and by_time.times == (1000.0, 1099.0)
    assert step_at(by_time.parts, 1092.5) == 92
    assert step_at(by_time.parts, 1.0) is None


def test_a_curve_crosses_to_a_window_as_it_is() -> None:
    curve = folded([(0, 1.0), (5, math.inf), (2, 3.0)])
    curves = Curves(("a", "b"), (curve, Curve("x", why="no file")))
    assert curves_in(json.loads(as_text(curves))) == curves
