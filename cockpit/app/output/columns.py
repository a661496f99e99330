"""Lines that go down the screen: written downwards they need their pen once, not in every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.app.output.cells import Row, doubtful

LEAST: Final = 3
"""Rows from which on a line is written downwards."""


class Column(NamedTuple):
    """Rows ``top`` to ``bottom`` have the same cell at ``x``, and all are to be written."""

    x: int
    top: int
    bottom: int


def find_columns(rows: Sequence[Row], differing: Mapping[int, Sequence[int]]) -> Iterator[Column]:
    """Yield the lines among the ``differing`` cells of each row."""
    open_at: dict[int, int] = {}
    for y in range(len(rows) + 1):
        here = {x for x in differing.get(y, ()) if _alone(rows[y], x)}
        for x in [x for x in open_at if x not in here or rows[y][x] != rows[y - 1][x]]:
            top = open_at.pop(x)
            if y - top >= LEAST:
                yield Column(x, top, y - 1)
        for x in here:
            open_at.setdefault(x, y)


def _alone(row: Row, x: int) -> bool:
    """Return whether a cell is a letter that shares its pen, and may share its room, with none."""
    letter, pen = row[x]
    if letter in ("", " "):
        return False
    for beside, its in (*row[max(0, x - 1) : x], *row[x + 1 : x + 2]):
        if beside != " " and (its is pen or its == pen):
            return False
    return not doubtful(letter) and (x + 1 == len(row) or row[x + 1][0] != "")
