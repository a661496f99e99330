"""Which cells of a frame are better erased than written: blanks where another screen had letters.

To erase takes some ten bytes however many cells it are. It is done last: what was there stands
until what comes in its place does, and nothing flashes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.app.output.cells import Cell, Row

WORTH: Final = 12
"""Cells from which on erasing them takes less than writing them."""


class Erasure(NamedTuple):
    """Cells ``x`` to before ``end`` of a row become one ``blank``."""

    y: int
    x: int
    end: int
    blank: Cell


def erasable(cell: Cell, *, coloured: bool) -> bool:
    """Return whether erasing leaves this cell; ``coloured``: in the pen's background."""
    letter, pen = cell
    return letter == " " and not pen.marks and not pen.link and (coloured or not pen.bg)


def find_erasures(
    rows: Sequence[Row], differing: Mapping[int, list[int]], *, coloured: bool
) -> Iterator[Erasure]:
    """Yield what is to be erased of the ``differing`` cells of each row, the last ones first.

    Such a stretch begins and ends with a blank that differs.
    """
    for y, places in differing.items():
        row, at = rows[y], len(places)
        while at >= WORTH:
            last = places[at - 1]
            first = _begin(row, last) if erasable(row[last], coloured=coloured) else last
            begin = bisect_left(places, first, hi=at)
            if at - begin >= WORTH:
                yield Erasure(y, places[begin], last + 1, row[last])
            at = min(begin, at - 1)


def _begin(row: Row, x: int) -> int:
    """Return where the equal cells begin that end here."""
    cell = row[x]
    while x and row[x - 1] == cell:
        x -= 1
    return x


def left_over(
    differing: Mapping[int, list[int]], erasures: Sequence[Erasure]
) -> Mapping[int, list[int]]:
    """Return the cells that are still to be written where these are erased."""
    left = dict(differing)
    for y, x, end, _ in erasures:
        places = left[y]
        left[y] = places[: bisect_left(places, x)] + places[bisect_left(places, end) :]
    return left
