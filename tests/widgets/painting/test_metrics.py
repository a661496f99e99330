"""Metrics of a run as they are looked at: what is shown of the axis, the cursor, the words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import RowSpan
from cockpit.model.curve import Curve, Part, Point, Restart
from tests.widgets import reports as made
from tests.widgets.reports import NOW
from widgets.painting.chart import paint
from widgets.painting.metrics import (
    ZOOMS,
    Look,
    drawing_of,
    edge,
    headline,
    loss_of,
    marks_of,
    moved,
    next_zoom,
    told_at,
)

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


def pressed(key: str, look: Look, whole: tuple[float, float]) -> Look:
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
    whole, look = (low, low + wide), Look()
    for key in keys:
        look = pressed(key, look, whole)
        shown = look.extent(whole)
        if shown is not None:
            assert whole[0] - 1 <= shown[0] <= shown[1] <= whole[1]


def test_what_is_zoomed_at_the_end_follows_the_run() -> None:
    look = Look().zoomed(WHOLE, 0.25)
    assert look.extent(WHOLE) == (749.25, 999.0)
    assert look.extent((0.0, 1999.0)) == (1499.25, 1999.0)
    held = look.panned(WHOLE, -0.5)
    assert held.extent((0.0, 1999.0))[1] < 999  # type: ignore[index]
    assert held.panned(WHOLE, 9).end is None


def test_zooming_keeps_the_cursor_in_sight() -> None:
    for part in ZOOMS[1:]:
        shown = Look(cursor=300.0).zoomed(WHOLE, part).extent(WHOLE)
        assert shown is not None and shown[0] <= 300 <= shown[1]


def test_the_cursor_tells_exactly_what_was_logged_there() -> None:
    curve = a_curve()
    look = edge(curve, Look(), end=True)
    assert look.cursor == 999
    told = told_at(curve, moved(curve, look, -1, 1000), NOW).plain
    assert told.startswith("998 nats · step 998 · ") and told.endswith(", now")
    folded = a_curve(width=10)
    told = told_at(folded, edge(folded, Look(), end=False), NOW).plain
    assert told.startswith("mean 4.5 nats (0.000 to 9.000) · steps 0–9 · ")
    assert told.endswith(", 33m ago")
    assert told_at(curve, Look(), NOW).plain == ""


def test_the_cursor_leaves_no_screen_and_turns_it() -> None:
    curve = a_curve()
    look = edge(curve, Look().zoomed(WHOLE, 0.05), end=False)
    further = moved(curve, look, -1, 50)
    shown = further.extent(WHOLE)
    assert further.share == 0.05 and shown is not None and shown[0] < (look.cursor or 0) <= shown[1]


def test_a_title_has_the_value_its_unit_and_its_age() -> None:
    told = headline("loss", a_curve(), NOW).plain
    assert told == "loss 999.0 nats 1m ago · step 999 · train/loss"


def test_a_time_axis_of_rows_without_times_says_so() -> None:
    untimed = tuple(part._replace(begin=None, end=None) for part in a_curve().parts)
    curve = Curve("loss", parts=untimed, extent=(0, 999))
    lines = paint(drawing_of(curve, Look(by_time=True), (), legend=True), 80, 12)
    assert lines[0].plain == "? its rows have no time"


def test_what_a_restart_made_obsolete_stays_dim_and_is_marked() -> None:
    curve = a_curve()._replace(restarts=(Restart(500, NOW - 1000),))
    former = tuple(part._replace(low=900.0, high=900.0, mean=900.0) for part in curve.parts[500:])
    report = made.report()
    marks = marks_of(report, curve, by_time=False)
    assert [(each.at, each.sign) for each in marks if each.sign == "↻"] == [(500, "↻")]
    timed = marks_of(report, curve, by_time=True)
    assert (int(NOW - 1000), "↻") in [(each.at, each.sign) for each in timed]
    drawn = paint(drawing_of(curve._replace(former=former), Look(), marks, legend=True), 80, 16)
    assert "before a restart" in drawn[-1].plain
    assert drawn[-3].plain.index("↻") == pytest.approx(10 + 30, abs=1)


def test_an_alert_stands_where_its_rows_say_else_where_the_run_was_then() -> None:
    told = made.alert("C-11").model_copy(update={"span": RowSpan(opened_step=123)})
    late = made.alert("C-05").model_copy(update={"since": NOW - 2 * 1000 + 800})
    marks = marks_of(made.report(alerts=(told, late)), a_curve(), by_time=False)
    assert [(each.at, each.words) for each in marks if each.words] in (
        [(123, "C-11"), (400, "C-05")],
        [(400, "C-05"), (123, "C-11")],
    )


def test_a_report_alone_gives_a_loss() -> None:
    curve = loss_of(made.report())
    assert curve.parts and curve.newest is not None and math.isfinite(curve.newest.value)
    assert curve.newest.at is not None
