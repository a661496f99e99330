"""Which cells of a frame are better erased than written: blanks where another screen had letters.

To erase takes some ten bytes however many cells it are. What stands on unchanged among them has to
be written again, and is set against that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.app.output.cells import Cell, Row

WORTH: Final = 12
"""Bytes that it must spare to erase a stretch: it takes about so many itself."""
_END: Final = -1_000_000


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
    rows: Sequence[Row], differing: Mapping[int, Sequence[int]], *, coloured: bool
) -> Iterator[Erasure]:
    """Yield what to erase before the ``differing`` cells of each row are written.

    A stretch begins and ends with a blank that differs: no wide character that stays is halved.
    """
    for y, places in differing.items():
        if len(places) < WORTH:
            continue
        row = rows[y]
        counts = Counter(row[x] for x in places if row[x][0] == " ")
        blanks = [each for each in counts.most_common() if erasable(each[0], coloured=coloured)]
        if blanks and blanks[0][1] >= WORTH:
            blank, differs = blanks[0][0], set(places)
            gains = (_gain(cell, x in differs, blank) for x, cell in enumerate(row))
            yield from (Erasure(y, x, end, blank) for x, end in _stretches(gains))


def left_over(row: Row, places: Sequence[int], erasures: Iterable[Erasure]) -> list[int]:
    """Return the cells of a row that are still to be written once these were erased."""
    found = set(places)
    for _, x, end, blank in erasures:
        found.difference_update(range(x, end))
        found.update(at for at in range(x, end) if row[at] != blank)
    return sorted(found)


def _gain(cell: Cell, differs: bool, blank: Cell) -> int:
    """Return how many bytes it spares to erase this cell first."""
    if cell == blank:
        return 1 if differs else 0
    return 0 if differs else -1 - len(cell[0].encode())


def _stretches(gains: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of where the gains add up to what is worth it."""
    start = end = total = best = 0
    for x, gain in enumerate((*gains, _END)):
        total += gain
        if total > best:
            best, end = total, x + 1
        elif total <= 0 or best - total >= WORTH:
            if best >= WORTH:
                yield start, end
            start, total, best = x + 1, 0, 0
