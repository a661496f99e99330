from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.model.observed import Column, Row
from cockpit.model.report import Facets
from cockpit.sources.curve_fold import LossColumns
from tests.widgets import reports as made
from tests.widgets.anything import columns
from widgets.painting.chart import LABELS, Drawing, paint
from widgets.painting.series import (
    StepAxis,
    fold,
    loss_columns,
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


@given(columns(), st.integers(1, 80), st.integers(1, 12), st.booleans())
def test_property_any_columns_can_be_drawn(
    drawn: tuple[Column, ...], width: int, height: int, log: bool
) -> None:
    series = fold(drawn, width * 2)
    if series is None:
        assert not drawn
        return
    scale = scale_of(series, log)
    rows = plot(series, scale, width, height, "$a", "$b")
    assert [row.cell_length for row in rows] == [width] * height


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
