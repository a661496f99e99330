"""Metrics as they are painted, enlarged figures, and trackers under their own names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.alert import RowSpan
from cockpit.model.curve import Curve, Part, Point, Restart
from cockpit.model.facet import TrackerAlert, known, not_configured
from cockpit.model.observed import Row
from cockpit.model.place import place_of
from cockpit.model.report import RunReport
from cockpit.model.run import TensorboardSpec, TrackioSpec
from tests.widgets import reports as made
from tests.widgets.anything import any_report
from tests.widgets.reports import NOW
from widgets.facet_table import paint_facets
from widgets.painting.big import HEIGHT, enlarged, paint_big
from widgets.painting.chart import paint
from widgets.painting.line import DIM, STRONG
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
from widgets.painting.series import why_no_curve

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
