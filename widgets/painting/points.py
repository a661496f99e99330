"""The open points of a handoff: each with its mark, the one at hand with its evidence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual.content import Content

from cockpit.model.open_points import Mark, Point
from cockpit.model.wording import age, clocked, clocked_minutes
from widgets.painting.fitting import brief as without_stamp
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, row, text, wrapped
from widgets.painting.rows import quoted

MOST: Final = 6
"""Rows that one text may take."""


def paint_points(
    points: Sequence[Point], marks: Mapping[str, Mark], at: int, now: float, width: int
) -> list[Content]:
    """Return a row for each point; below the one at hand its evidence and what to do.

    Instants stand on the reader's clock; ``now`` in seconds since the epoch.
    """
    rows: list[Content] = []
    for place, point in enumerate(points):
        here, point = place == at, _in_clock_times(point, now)
        rows.append(_row(point, marks.get(point.key), here, now, width))
        rows += _under(point, marks.get(point.key), here, width)
    return rows


def point_row(
    points: Sequence[Point], marks: Mapping[str, Mark], at: int, now: float, width: int
) -> int:
    """Return at which row the point at hand begins."""
    return len(paint_points(points[:at], marks, -1, now, width))


def _in_clock_times(point: Point, now: float) -> Point:
    def here(words: str) -> str:
        return clocked_minutes(clocked(words, now), now)

    told = tuple(
        (words if quoted(source) else here(words), source) for words, source in point.evidence
    )
    return point._replace(title=here(point.title), evidence=told, next=here(point.next))


def _row(point: Point, mark: Mark | None, here: bool, now: float, width: int) -> Content:
    sign = ("✓ ", "$well") if mark and mark.discussed else ("▲ ", "$attention") if mark else "○ "
    pointer = ("▸ ", ACCENT) if here else "  "
    said = "discussed" if mark and mark.discussed else "left open" if mark else ""
    old = "" if point.since is None else age(now - point.since) + "+" * point.or_before
    right = text(("  ".join(filter(None, (said, old, point.code))), DIM))
    left = text(pointer, sign, (point.title, STRONG if here else ""))
    return row(cut(left, max(1, width - right.cell_length - 2)), right, width)


def _under(point: Point, mark: Mark | None, here: bool, width: int) -> list[Content]:
    room = max(1, width - 6)
    note = (
        wrapped(text((f"note: {mark.note}", "$attention")), room, MOST)
        if mark and mark.note
        else []
    )
    told: list[Content] = []
    if here:
        for words, source in point.evidence:
            said = without_stamp(Content(words))
            told += wrapped(text(said, (f"  {source}", DIM)), room, MOST)
        told += wrapped(text(("→ ", ACCENT), point.next), room, MOST) if point.next else []
    lines = [text(" " * 6, piece) for piece in [*told, *note]]
    return [*lines, EMPTY] if here else lines
