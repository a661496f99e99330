from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.model.observed import Column, Row
from cockpit.model.report import Facets
from cockpit.sources.wandb.history import LossColumns
from tests.widgets import reports as made
from tests.widgets.anything import columns
from widgets.painting.chart import LABELS, Drawing, Steady, paint
from widgets.painting.series import (
    _CURVES,
    CURVES,
    StepAxis,
    block_line,
    fold,
    loss_columns,
    loss_curve,
    plot,
    scale_of,
    why_no_curve,
)


def paint_chart(columns: list[Column], width: int, height: int, log: bool | None) -> list[Content]:
    return paint(Drawing(columns, log=log, why="no loss logged yet"), width, height)


def point(step: int, value: float) -> Column:
    return Column(step, step, value, value, value, 0)


def test_a_short_spike_survives_the_folding() -> None:
    values = [point(step, 2.0) for step in range(1000)]
    values[517] = point(517, 9.0)
    series = fold(values, 50)
    assert series is not None
    assert series.extent == (2.0, 9.0)
    assert max(range(50), key=lambda at: series.bins[at].high or 0) == series.axis.column(517)


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
    bins = series.line(scale_of(series))
    assert all(each.mean == 1.0 for each in bins[:10])
    assert all(each.mean is None and not each.bad for each in bins[10:20])


def test_the_line_shows_marks_where_there_are_no_numbers() -> None:
    series = fold([point(0, 1.0), point(1, 2.0), Column(2, 2, None, None, None, 1)], 3)
    assert block_line(series, 3, "$spark").plain == "▁█×"


def test_nothing_but_non_numbers_is_still_a_line() -> None:
    assert block_line(fold([Column(0, 9, None, None, None, 5)], 10), 10, "").plain == "×" * 10


def test_a_rising_line_is_drawn_from_bottom_left_to_top_right() -> None:
    series = fold([point(step, float(step)) for step in range(8)], 8)
    assert series is not None
    rows = plot(series, scale_of(series, log=False), 4, 2, "$a", "$b")
    assert [row.plain for row in rows] == ["  ⡠⠊", "⡠⠊  "]


def test_the_axes_name_the_extremes_and_the_steps() -> None:
    lines = [line.plain for line in paint_chart(list(made.columns()), 80, 16, False)]
    labels = [line.split()[0] for line in lines[:-3] if "┤" in line]
    assert labels == ["10", "8", "6", "4", "2"]
    assert lines[-2].split() == ["0", "200", "400", "600", "800", "999"]
    assert lines[-1].endswith(" linear")
    assert paint_chart(list(made.columns()), 80, 16, True)[-1].plain.endswith(" log")


@pytest.mark.parametrize("count", [1, 2, 69, 139, 140, 141, 3000])
def test_the_last_bin_lies_in_the_last_dot_column(count: int) -> None:
    """However many steps there are for 140 dot columns (SCREENS: a curve fills its own axis)."""
    series = fold([point(step, 2.0 + step) for step in range(count)], 140)
    assert series is not None
    assert series.bins[0].seen and series.bins[-1].seen == (count > 1)
    drawn = [line.plain for line in paint_chart(
        [point(step, 2.0 + step) for step in range(count)], 80, 12, False)]  # fmt: skip
    right = [line[-1] for line in drawn[:-3]]
    assert count == 1 or any("\u2800" < each <= "\u28ff" for each in right)


@given(columns(), st.integers(1, 80), st.integers(1, 12), st.floats(0, 1), st.booleans())
def test_property_any_columns_can_be_drawn(
    drawn: tuple[Column, ...], width: int, height: int, tail: float, log: bool
) -> None:
    series = fold(drawn, width * 2, tail)
    if series is None:
        assert not drawn
        return
    assert block_line(series, width, "$a").cell_length <= width
    scale = scale_of(series, log)
    rows = plot(series, scale, width, height, "$a", "$b")
    assert [row.cell_length for row in rows] == [width] * height


def test_a_learning_rate_that_warms_up_is_drawn_from_its_beginning() -> None:
    warm = [point(step, min(1.0, (step + 1) / 8) * 3e-4) for step in range(100)]
    series = fold(warm, 100)
    assert series is not None and scale_of(series, log=False).low == 3e-4 / 8


steps_logged = st.lists(st.integers(0, 5000), min_size=1, max_size=60)


@given(steps_logged, st.integers(1, 160))
def test_property_a_point_stands_where_its_step_is(logged: list[int], count: int) -> None:
    """Also with fewer rows than dots, with gaps, and after a resume that goes back."""
    gathered = LossColumns()
    gathered.add(Row(step, None, float(step)) for step in logged)
    series = fold(gathered.columns(), count)
    assert series is not None
    stands: dict[int, list[int]] = {}
    for step in logged:
        stands.setdefault(series.axis.column(step), []).append(step)
    assert {at for at, each in enumerate(series.bins) if each.seen} == stands.keys()
    assert all(
        (series.bins[at].low, series.bins[at].high) == (min(steps), max(steps))
        for at, steps in stands.items()
    )


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(2, 400), st.floats(0, 1))
def test_property_the_axis_is_even_from_edge_to_edge(
    first: int, span: int, count: int, share: float
) -> None:
    axis = StepAxis(first, first + span, count)
    step = first + round(span * share)
    assert axis.column(first) == 0
    assert axis.column(first + span) == (count - 1 if span else 0)
    wide = span / (count - 1)
    assert abs(axis.step(axis.column(step)) - step) <= wide / 2 + 1
    assert abs(axis.column(step) * wide - (step - first)) <= wide / 2 + 1e-6 * span + 1e-9


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(30, 200))
def test_property_labels_stand_below_their_steps(first: int, span: int, width: int) -> None:
    last = first + span
    drawn = paint_chart([point(first, 1.0), point(last, 2.0)], width, 12, False)[-2].plain
    across = width - LABELS - 1
    axis = StepAxis(first, last, across * 2)
    marks = drawn.split()
    assert marks[0] == f"{first:,}"
    for mark in marks:
        begin = LABELS + 1 + axis.column(int(mark.replace(",", ""))) // 2
        at = drawn.index(mark)
        assert at <= begin < at + len(mark) + 1


def test_fewer_rows_than_dots_fill_the_whole_axis() -> None:
    lines = paint_chart([point(step, 5.0 - step / 40) for step in range(0, 90, 2)], 80, 12, None)
    assert lines[-2].plain.split()[-1] == "88"
    assert lines[-2].cell_length == lines[-4].cell_length == 80
    assert not lines[-4].plain.endswith(" ")


@pytest.mark.parametrize("spike", [495.0, 1e30, -495.0])
def test_one_huge_value_is_marked_at_the_edge_and_flattens_nothing(spike: float) -> None:
    values = [point(step, 2.0 + step % 7 / 10) for step in range(100)]
    values[60] = point(60, spike)
    lines = [line.plain for line in paint_chart(values, 80, 14, None)]
    mark = "↑" if spike > 0 else "↓"
    edge = lines[0] if spike > 0 else lines[-4]
    assert edge.index(mark) == LABELS + 1 + StepAxis(0, 99, 140).column(60) // 2
    assert f"{mark} 1 beyond, to " in lines[-1]
    assert max(float(line.split()[0]) for line in lines[:-3] if "┤" in line) == 2.6
    assert mark in block_line(fold(values, 20), 20, "").plain


def test_a_curve_that_falls_from_its_start_is_no_outlier() -> None:
    values = [point(step, 2 + 9 * math.exp(-step / 15)) for step in range(1000)]
    lines = [line.plain for line in paint_chart(values, 80, 14, False)]
    assert lines[1].split()[0] == "10.0"
    assert "↑" not in "".join(lines)


def test_equal_values_lie_in_the_middle_and_labels_differ() -> None:
    lines = [line.plain for line in paint_chart([point(0, 2.0), point(9, 2.0)], 80, 14, None)]
    labels = [line.split()[0] for line in lines[:-3] if "┤" in line]
    assert len(set(labels)) == len(labels)
    assert any(line.count("⠒") > 30 for line in lines[4:7])
    close = [point(step, 2 + step % 3 / 1e5) for step in range(9)]
    labels = [line.plain.split()[0] for line in paint_chart(close, 80, 14, None)[:-3]]
    assert {each for each in labels if each[0].isdigit()} == {
        "2.000000",
        "2.000005",
        "2.000010",
        "2.000015",
        "2.000020",
    }


def test_an_empty_chart_says_why() -> None:
    bare = {"columns": (), "history": (), "loss": None}
    said = {
        "not read": made.tracker(**bare, scanned=0.0),
        "no loss among": made.tracker(**bare),
        "nothing was logged": made.tracker(**bare, step=None, last_step_at=None),
        "no answer in 20 s": made.missing(),
        "no tracker in cockpit.toml": Facets().tracker,
    }
    for words, tracker in said.items():
        assert words in why_no_curve(made.report(seen=made.facets(tracker=tracker))), words
    nothing = paint_chart([Column(0, 9, None, None, None, 5)], 80, 12, None)
    assert "NaN or infinite" in nothing[0].plain


def test_a_loss_that_blows_up_before_it_breaks_leaves_the_curve_readable() -> None:
    """Its last rows, a quarter of all that are finite, lie far above the rest."""
    calm = [point(step, 2 + 3 * math.exp(-step / 30)) for step in range(100)]
    blown = [point(100 + step, 2.1 * 1.158**step) for step in range(36)]
    broken = [Column(136, 320, None, None, None, 185)]
    lines = [line.plain for line in paint_chart([*calm, *blown, *broken], 80, 18, False)]
    assert max(float(line.split()[0]) for line in lines[:-3] if "┤" in line) < 40
    assert "↑" in lines[0]
    assert "beyond, to 3" in lines[-1]
    assert "since 136" in lines[2] and "185 rows" in lines[3]
    assert "axis cut: 136–320 are NaN or inf" in lines[-3]
    wall = lines[1].rindex("│")
    assert wall > 80 * 2 // 3 - LABELS and all(line[wall] == "│" for line in lines[1:-3])


def test_a_curve_is_folded_once_for_the_facts_it_is_drawn_from() -> None:
    report = next(each for each in made.fleet() if each.facets.tracker.value)
    drawn = loss_curve(report, 12)
    later = report.model_copy(update={"checked_at": report.checked_at + 60})
    assert drawn is not None and loss_curve(later, 12) is drawn
    assert loss_curve(later, 13) == fold(loss_columns(report), 13)
    assert report.facets.tracker.value is not None
    bare = report.facets.tracker.value.model_copy(update={"columns": (), "history": ()})
    tracker = report.facets.tracker.model_copy(update={"value": bare})
    facets = report.facets.model_copy(update={"tracker": tracker})
    other = report.model_copy(update={"facets": facets})
    assert loss_curve(other, 12) == fold(loss_columns(other), 12)
    for count in range(1, CURVES + 2):
        loss_curve(report, count)
    assert len(_CURVES) <= CURVES


def test_a_value_at_the_limit_moves_the_axis_once_and_not_at_each_new_row() -> None:
    def highest(steady: Steady, *wide: float, top: float = 226.0) -> list[float]:
        """Return the axis' ends for a level that varies by so much, around one at ``top``."""
        ends = []
        for each in wide:
            values = [point(step, 150 + each * (step % 10)) for step in range(100)]
            values[40] = point(40, top)
            series = fold(values, 100)
            assert series is not None
            ends.append(steady.scale(series, log=False).high)
        return ends

    (low,), (high,) = highest(Steady(), 1.5), highest(Steady(), 2.5)
    assert low < 170 < high == 226
    assert highest(Steady(), 1.5, 2.5, 1.5, 2.5, 1.5) == [low, high, high, high, high]
    steady = Steady()
    highest(steady, 2.5)
    assert highest(steady, 2.5, top=900.0)[0] < 180, "far beyond by now"
