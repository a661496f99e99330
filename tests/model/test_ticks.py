"""Labels of an axis lie on it, whatever its ends are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.ticks import log_values, round_values

ABOVE_ZERO = st.floats(min_value=5e-324, max_value=1.7e308)


@pytest.mark.parametrize("values", [log_values, round_values])
@given(ends=st.tuples(ABOVE_ZERO, ABOVE_ZERO), count=st.integers(1, 12))
@example(ends=(1.0, 1.0000000000000655e308), count=3)
@example(ends=(5e-324, 1.7e308), count=5)
def test_labels_lie_between_the_ends_in_their_order(
    values: Callable[[float, float, int], list[float]], ends: tuple[float, float], count: int
) -> None:
    low, high = sorted(ends)
    found = values(low, high, count)
    assert found == sorted(found) and low <= found[0] and found[-1] <= high
