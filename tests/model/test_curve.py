"""What charts are drawn from."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.curve import PackedColumns, log_values, round_values
from cockpit.model.observed import Column, Row
from cockpit.sources.curve_fold import LossColumns

steps = st.integers(-(2**63), 2**63 - 1)
figures = st.one_of(st.none(), st.floats(allow_nan=False))
columns = st.builds(Column, steps, steps, figures, figures, figures, st.integers(0, 10**9))


@given(every=st.lists(columns, max_size=20), cut=st.slices(20))
def test_the_same_columns_come_out(every: list[Column], cut: slice) -> None:
    packed = PackedColumns(every)
    assert list(packed) == every == [packed[at] for at in range(len(packed))]
    assert list(packed[cut]) == every[cut]
    assert packed == PackedColumns(every) and hash(packed) == hash(PackedColumns(every))
    assert packed == tuple(every)


def test_others_are_others() -> None:
    gap = Column(1, 2, None, None, None, 1)
    assert PackedColumns([gap]) == PackedColumns([gap])
    assert PackedColumns([gap]) != PackedColumns([gap._replace(nonfinite=2)])
    assert PackedColumns([gap]) != PackedColumns([gap, gap])
    assert PackedColumns([gap]) != "1"


def test_a_step_that_no_run_has_is_refused() -> None:
    with pytest.raises(OverflowError):
        PackedColumns([Column(2**63, 2**63, 1.0, 1.0, 1.0)])


def test_a_thousand_rows_and_their_columns_take_forty_bytes_each() -> None:
    rows = [Row(step, None, 2.5 + step) for step in range(1000)]
    kept = LossColumns()
    tracemalloc.start()
    try:
        kept.add(rows)
        shown = kept.columns()
        bytes_kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(shown) == 1000 and bytes_kept < 40_000


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
