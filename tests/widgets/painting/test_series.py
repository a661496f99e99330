from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Column
from tests.widgets import reports as made
from tests.widgets.anything import columns
from widgets.loss_chart import paint_chart
from widgets.painting.series import block_line, fold, loss_columns, plot, scale_of


def point(step: int, value: float) -> Column:
    return Column(step, step, value, value, value, 0)


def test_a_short_spike_survives_the_folding() -> None:
    values = [point(step, 2.0) for step in range(1000)]
    values[517] = point(517, 9.0)
    series = fold(values, 50)
    assert series is not None
    assert series.extent == (2.0, 9.0)
    assert max(range(50), key=lambda at: series.bins[at].high or 0) == 517 * 50 // 1000


def test_a_single_non_number_marks_its_column_and_no_other() -> None:
    report = made.report(seen=made.facets(tracker=made.tracker(columns=made.columns(100, (40,)))))
    series = fold(loss_columns(report), 50)
    assert series is not None
    assert [at for at, each in enumerate(series.bins) if each.bad] == [20]


def test_non_numbers_in_the_history_count_too() -> None:
    tracker = made.tracker(columns=(), history=((0, 2.0), (10, math.nan), (20, math.inf)))
    series = fold(loss_columns(made.report(seen=made.facets(tracker=tracker))), 21)
    assert series is not None
    assert series.bad == 2


def test_a_gap_stays_a_gap_and_sparse_rows_are_joined() -> None:
    gap = Column(10, 19, None, None, None, 0)
    series = fold([point(0, 1.0), point(9, 1.0), gap, point(20, 1.0)], 21)
    assert series is not None
    assert all(each.mean == 1.0 for each in series.bins[:10])
    assert all(each.mean is None and not each.bad for each in series.bins[10:20])


def test_the_line_shows_marks_where_there_are_no_numbers() -> None:
    series = fold([point(0, 1.0), point(1, 2.0), Column(2, 2, None, None, None, 1)], 3)
    assert block_line(series, 3, "$spark").plain == "▁█×"


def test_nothing_but_non_numbers_is_still_a_line() -> None:
    assert block_line(fold([Column(0, 9, None, None, None, 5)], 10), 10, "").plain == "×" * 10


def test_a_rising_line_is_drawn_from_bottom_left_to_top_right() -> None:
    series = fold([point(step, float(step)) for step in range(8)], 8)
    assert series is not None
    rows = plot(series, scale_of((0.0, 7.0), log=False), 4, 2, "$a", "$b")
    assert [row.plain for row in rows] == ["  ⡠⠊", "⡠⠊  "]


def test_the_axes_name_the_extremes_and_the_steps() -> None:
    lines = [line.plain for line in paint_chart(list(made.columns()), 80, 16, False, 1.0)]
    assert lines[0].strip().startswith("10.50 ┤")
    assert lines[-2].split() == ["0", "249", "499", "749", "999"]
    assert "linear axis" in lines[-1]
    assert "log axis" in paint_chart(list(made.columns()), 80, 16, True, 1.0)[-1].plain


@given(columns(), st.integers(1, 80), st.integers(1, 12), st.floats(0, 1), st.booleans())
def test_property_any_columns_can_be_drawn(
    drawn: tuple[Column, ...], width: int, height: int, tail: float, log: bool
) -> None:
    series = fold(drawn, width * 2, tail)
    if series is None:
        assert not drawn
        return
    assert block_line(series, width, "$a").cell_length <= width
    scale = scale_of(series.extent or (0.0, 1.0), log)
    rows = plot(series, scale, width, height, "$a", "$b")
    assert [row.cell_length for row in rows] == [width] * height
