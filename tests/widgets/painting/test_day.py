"""A run's last 24 hours: what was seen, the worst of each half hour; what nobody watched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.day import CELL, CELLS, UNSEEN, Day
from cockpit.model.report import Verdict
from tests.widgets import reports as made
from widgets.painting.day import MARKS, paint_day
from widgets.painting.panel import paint_panel

T0 = 1000 * CELL


def day(*looks: tuple[float, str], cadence: float = 600.0) -> Day:
    found = Day()
    for at, verdict in looks:
        found = found.with_look(T0 + at * CELL, verdict, cadence)
    return found


def test_a_half_hour_tells_the_worst_that_was_seen_in_it() -> None:
    found = day((0.1, "healthy"), (0.3, "critical"), (0.6, "healthy"), (1.1, "healthy"))
    assert found.cells.endswith(".ch") and found.until(T0 + 2.5 * CELL).endswith(".ch.")


def test_between_two_looks_of_a_slow_cadence_it_was_as_before() -> None:
    found = day((0, "attention"), (4, "healthy"), cadence=2 * CELL)
    assert found.cells.endswith(".aaaah")


def test_what_nobody_watched_is_not_told() -> None:
    found = day((0, "healthy"), (4, "healthy"))
    assert found.cells.endswith(".h...h")
    assert found.until(T0 + 100 * CELL) == Day().until(T0) == UNSEEN * CELLS


def test_a_clock_that_went_back_tells_nothing() -> None:
    found = day((4, "healthy"))
    assert found.with_look(T0, "critical", 600.0) == found


@given(st.lists(st.tuples(st.floats(0, 200), st.sampled_from(list(Verdict))), max_size=30))
def test_property_it_is_bounded_and_the_present_is_its_last_cell(
    looks: list[tuple[float, Verdict]],
) -> None:
    found = day(*((at, verdict.value) for at, verdict in sorted(looks)))
    assert len(found.cells) == CELLS and set(found.cells) <= set(MARKS)
    assert not looks or found.cells[-1] != UNSEEN


@pytest.mark.parametrize(("width", "cells"), [(23, 0), (24, 24), (47, 24), (48, 48), (90, 48)])
def test_the_strip_stands_where_there_is_room(width: int, cells: int) -> None:
    report = made.report(day=day((0, "critical"), (0.5, "healthy"), (1, "healthy")))
    shown = paint_day(report, T0 + CELL * 1.5, width)
    assert shown.cell_length <= width
    assert shown.plain[:cells].endswith("█▂"[: 1 + (cells == 48)]) or not cells
    assert ("█ critical  ▂ healthy  · not watched" in shown.plain) == (width == 90)


def test_the_panel_has_it_where_somebody_watched() -> None:
    watched = made.report(day=Day().with_look(made.NOW, "healthy", 600.0))
    shown = [line.plain for line in paint_panel(watched, made.NOW, 90, 16)]
    assert any("24h   ··" in line and "▂  ▂ healthy" in line for line in shown)
    assert not any("24h" in line.plain for line in paint_panel(made.report(), made.NOW, 90, 16))
