"""Metrics as they are painted, enlarged figures, and trackers under their own names.

A line is set over as many lines as it needs, and over one as it is.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.content import Content

from cockpit.model.alert import RowSpan
from cockpit.model.curve import Curve, Part, Point, Restart
from cockpit.model.facet import TrackerAlert, known, not_configured
from cockpit.model.observed import Column, Row
from cockpit.model.place import place_of
from cockpit.model.report import Facets, RunReport
from cockpit.model.run import TensorboardSpec, TrackioSpec
from cockpit.sources.curve_fold import LossColumns
from tests.widgets import reports as made
from tests.widgets.anything import any_report, columns
from tests.widgets.reports import NOW
from widgets.facet_table import paint_facets
from widgets.painting.big import HEIGHT, enlarged, paint_big
from widgets.painting.chart import LABELS, Drawing, paint
from widgets.painting.line import DIM, STRONG, fitted, wrapped
from widgets.painting.metrics import (
    ZOOMS,
    ChartRange,
    drawing_of,
    edge,
    marks_of,
    moved,
    next_zoom,
    words_at_cursor,
)
from widgets.painting.rows import ages
from widgets.painting.series import StepAxis, fold, loss_columns, plot, scale_of, why_no_curve

WHOLE = (0.0, 999.0)


def a_curve(count: int = 1000, width: int = 1) -> Curve:
    """One value a step that equals the step, two seconds apart, the last one now."""
    parts = tuple(
        Part(at, at + width - 1, NOW - 2 * (count - at), NOW - 2 * (count - at - width + 1),
             float(at), float(at + width - 1), at + (width - 1) / 2, width, 0)
        for at in range(0, count, width)
    )  # fmt: skip
    last = Point(count - 1, NOW - 90, count - 1.0)
    return Curve("train/loss", "nats", parts, extent=(0, count - 1), rows=count,
                 times=(NOW - 2 * count, NOW), newest=last)  # fmt: skip


def pressed(key: str, look: ChartRange, whole: tuple[float, float]) -> ChartRange:
    if key in ("back", "on"):
        return moved(a_curve(50), look, 1 if key == "on" else -1, 20)
    if key in ("left", "right"):
        return look.panned(whole, 0.5 if key == "right" else -0.5)
    part = {"in": look.share / 2, "out": look.share * 2}.get(key, next_zoom(look.share))
    return look.zoomed(whole, part)


@given(
    st.lists(st.sampled_from(["in", "out", "left", "right", "back", "on", "next"]), max_size=30),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
)
def test_property_what_is_shown_lies_within_the_run(
    keys: list[str], low: float, wide: float
) -> None:
    whole, look = (low, low + wide), ChartRange()
    for key in keys:
        look = pressed(key, look, whole)
        shown = look.extent(whole)
        if shown is not None:
            assert whole[0] - 1 <= shown[0] <= shown[1] <= whole[1]


def test_what_is_zoomed_at_the_end_follows_the_run() -> None:
    look = ChartRange().zoomed(WHOLE, 0.25)
    assert look.extent(WHOLE) == (749.25, 999.0)
    assert look.extent((0.0, 1999.0)) == (1499.25, 1999.0)
    held = look.panned(WHOLE, -0.5)
    assert held.extent((0.0, 1999.0))[1] < 999  # type: ignore[index]
    assert held.panned(WHOLE, 9).end is None


def test_zooming_keeps_the_cursor_in_sight() -> None:
    for part in ZOOMS[1:]:
        shown = ChartRange(cursor=300.0).zoomed(WHOLE, part).extent(WHOLE)
        assert shown is not None and shown[0] <= 300 <= shown[1]


def test_the_cursor_tells_exactly_what_was_logged_there() -> None:
    curve = a_curve()
    look = edge(curve, ChartRange(), end=True)
    assert look.cursor == 999
    told = words_at_cursor(curve, moved(curve, look, -1, 1000), NOW).plain
    assert told.startswith("998 nats · step 998 · ") and told.endswith(", now")
    folded = a_curve(width=10)
    told = words_at_cursor(folded, edge(folded, ChartRange(), end=False), NOW).plain
    assert told.startswith("mean 4.5 nats (0.000 to 9.000) · steps 0–9 · ")
    assert told.endswith(", 33m ago")
    assert words_at_cursor(curve, ChartRange(), NOW).plain == ""


def test_the_cursor_leaves_no_screen_and_turns_it() -> None:
    curve = a_curve()
    look = edge(curve, ChartRange().zoomed(WHOLE, 0.05), end=False)
    further = moved(curve, look, -1, 50)
    shown = further.extent(WHOLE)
    assert further.share == 0.05 and shown is not None and shown[0] < (look.cursor or 0) <= shown[1]


def test_a_time_axis_of_rows_without_times_says_so() -> None:
    untimed = tuple(part._replace(begin=None, end=None) for part in a_curve().parts)
    curve = Curve("loss", parts=untimed, extent=(0, 999))
    lines = paint(drawing_of(curve, ChartRange(by_time=True), (), legend=True), 80, 12)
    assert lines[0].plain == "? its rows have no time"


def test_what_a_restart_made_obsolete_stays_dim_and_is_marked() -> None:
    curve = a_curve()._replace(restarts=(Restart(500, NOW - 1000),))
    former = tuple(part._replace(low=900.0, high=900.0, mean=900.0) for part in curve.parts[500:])
    report = made.report()
    marks = marks_of(report, curve, by_time=False)
    assert [(each.at, each.sign) for each in marks if each.sign == "↻"] == [(500, "↻")]
    timed = marks_of(report, curve, by_time=True)
    assert (int(NOW - 1000), "↻") in [(each.at, each.sign) for each in timed]
    drawn = paint(
        drawing_of(curve._replace(former=former), ChartRange(), marks, legend=True), 80, 16
    )
    assert "before a restart" in drawn[-1].plain
    assert drawn[-3].plain.index("↻") == pytest.approx(10 + 30, abs=1)


def test_an_alert_stands_where_its_rows_say_else_where_the_run_was_then() -> None:
    told = made.alert("C-11").model_copy(update={"span": RowSpan(opened_step=123)})
    late = made.alert("C-05").model_copy(update={"since": NOW - 2 * 1000 + 800})
    marks = marks_of(made.report(alerts=(told, late)), a_curve(), by_time=False)
    assert {each.at for each in marks} >= {123, 400}


def shown(report: RunReport, width: int = 160, *, plain: bool = False) -> str:
    return "\n".join(line.plain for line in paint_big(report, made.NOW, width, plain=plain))


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_unknown_says_why_and_what_is_no_number_is_a_word(plain: bool) -> None:
    lost = shown(next(each for each in made.fleet() if each.name == "run-lost"), plain=plain)
    assert lost.count(" unknown ") >= 2 and "no answer in 20 s" in lost
    nan = shown(next(each for each in made.fleet() if each.name == "run-nan"), plain=plain)
    assert " NaN " in nan


def test_an_age_is_that_of_the_loss_and_not_of_the_look_at_its_file() -> None:
    hung = made.report("run-a", seen=made.facets(tracker=made.tracker(last_step_at=None)))
    assert "age unknown" in shown(hung) and " ago" not in shown(hung)
    rows = (Row(39, made.NOW - 7200, loss=2.39), Row(40, None))
    told = made.log()
    assert told.value is not None
    log = known(told.value.model_copy(update={"rows": rows}), "/data/run.log", made.NOW - 1)
    bare = made.facets(tracker=not_configured("wandb"), log=log)
    assert "2h 00m ago" in shown(made.report("run-a", seen=bare))


def test_a_loss_that_no_new_line_tells_is_not_said_never_to_have_been_logged() -> None:
    bare = made.facets(tracker=not_configured("wandb"), log=made.log())
    assert "none known from the log" in shown(made.report("run-a", seen=bare))


def test_a_rate_of_long_ago_is_dim() -> None:
    tracker = made.tracker()
    assert tracker.value is not None
    old = known(tracker.value, "W&B", made.NOW - 86400)
    for seen, style in ((tracker, STRONG), (old, DIM)):
        report = made.report("run-a", seen=made.facets(tracker=seen))
        lines = paint_big(report, made.NOW, 160, plain=False)
        row = enlarged("830k", plain=False)[1].rstrip()
        at = lines[2].plain.index(row)
        styles = {span.style for span in lines[2].spans if span.start <= at < span.end}
        assert str(style) in {str(each) for each in styles}


@settings(max_examples=60)
@given(st.one_of(st.sampled_from(made.fleet()), any_report()), st.integers(1, 250), st.booleans())
def test_property_it_keeps_within_its_room(report: RunReport, width: int, plain: bool) -> None:
    lines = paint_big(report, made.NOW, width, plain=plain)
    assert len(lines) == HEIGHT - 1
    assert all(line.cell_length <= width for line in lines)


def report_of(**changes: object) -> RunReport:
    report = made.report(seen=made.facets(tracker=made.tracker(**changes)))
    spec = TrackioSpec(db=place_of("/t/p.db"))
    return report.model_copy(
        update={"spec": report.spec.model_copy(update={"wandb": None, "trackio": spec})}
    )


def test_its_age_and_its_table_have_its_own_name() -> None:
    report = report_of(columns=(), history=(), loss=None)
    assert ages(report, made.NOW)[0].plain == "steps 30s"
    assert why_no_curve(report).endswith("name it in [run.trackio] metrics")
    events = TensorboardSpec(dir=place_of("/t"))
    spec = report.spec.model_copy(update={"trackio": None, "tensorboard": events})
    other = report.model_copy(update={"spec": spec})
    assert why_no_curve(other).endswith("name it in [run.tensorboard] metrics")


def test_what_the_trainer_raised_is_a_fact_of_the_tracker() -> None:
    alert = TrackerAlert(at=made.NOW - 60, level="error", title="Loss is NaN", text="at 7")
    lines = paint_facets(report_of(alerts=(alert,)), made.NOW, 100)
    text = " ".join(line.plain for line in lines)
    assert "trainer's error Loss is NaN · at 7 · 1m" in text


WORDS = st.text("ab /.~é中\t\n ", max_size=40)


@given(WORDS, st.integers(1, 60), st.integers(1, 3))
def test_what_fits_reads_as_if_it_were_wrapped(words: str, width: int, most: int) -> None:
    line = Content(words)
    if line.cell_length <= width and not set("\t\n") & set(words):
        shown = [each.plain for each in fitted(line, width, most)]
        assert shown == [each.plain for each in wrapped(line, width, most)]


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
