"""The sequences that change a terminal: shortest moves, what differs of the pen, erased ends.

What the terminal's cursor and pen are is known or not; where not, they are set from scratch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from itertools import islice

from cockpit.app.output.cells import Cell, Row, doubtful, most_cells
from cockpit.app.output.erasing import Erasure, erasable
from cockpit.app.output.pens import Pen, change, over_blank

ERASE_FROM = 4
"""Blanks at a line's end from which on erasing them takes less than writing them."""
BRIDGE = 8
"""Unchanged cells between changed ones that may take less to write than to step over."""


class Encoder:
    """Writes cells into ``taken``; ``y``, ``x`` and ``pen`` are the terminal's (``None``: unknown).

    ``erases``: an erased cell gets the pen's background; else only blanks of none are erased.
    ``repeats``: it can be told to repeat a letter (REP).
    """

    def __init__(self, width: int = 0, *, erases: bool = True) -> None:
        self.width = width
        self.erases = erases
        self.repeats = False
        self.y: int | None = None
        self.x: int | None = None
        self.pen: Pen | None = None
        self._linked = False
        self._parts: list[str] = []

    def copy(self) -> Encoder:
        """Return another that goes on from here."""
        other = copy(self)
        other._parts = list(self._parts)
        return other

    @property
    def length(self) -> int:
        """Return how many bytes wait to be taken."""
        return len("".join(self._parts).encode())

    def taken(self) -> str:
        """Return what was written since the last call."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def take(self, pen: Pen) -> None:
        """Write with that pen from now on."""
        if pen is not self.pen:
            self._parts.append(change(self.pen, pen))
            self.pen = pen
            self._linked = self._linked or bool(pen.link)

    def move(self, y: int, x: int) -> None:
        """Put the cursor there."""
        if (y, x) != (self.y, self.x):
            self._parts.append(shortest_move(self.y, self.x, y, x))
            self.y, self.x = y, x

    def clear(self, pen: Pen) -> None:
        """Erase the whole screen in a pen's background; nothing is taken for known."""
        self._parts.append("\x1b[r\x1b[H")  # other margins would have been another program's
        self.y, self.x, self.pen = 0, 0, None
        if self._linked:
            self._parts.append("\x1b]8;;\x1b\\")
        self.take(pen)
        self._parts.append("\x1b[J")

    def scroll(self, top: int, bottom: int, lines: int) -> None:
        """Scroll rows ``top`` to ``bottom`` up (down for a negative number)."""
        self._parts.append(f"\x1b[{top + 1};{bottom + 1}r")
        self.y = self.x = 0
        self.move(bottom if lines > 0 else top, 0)
        self._parts.append("\n" * lines if lines > 0 else "\x1bM" * -lines)
        self._parts.append("\x1b[r")
        self.y = self.x = 0

    def column(self, x: int, top: int, bottom: int, cell: Cell) -> None:
        """Write the same narrow cell in several rows."""
        for y in range(top, bottom + 1):
            self.move(y, x)
            self.take(cell[1])
            self._letter(cell[0], x, x + 1)

    def erase(self, erasure: Erasure) -> None:
        """Empty a stretch of a row."""
        y, x, end, blank = erasure
        self.move(y, x)
        self.take(pen_for(self.pen, blank))
        self._parts.append("\x1b[K" if end == self.width else f"\x1b[{end - x}X")

    def line(self, y: int, wanted: Row, differing: Sequence[int]) -> None:
        """Write the cells of a row that differ from what it shows."""
        tail = self._erasable(wanted, differing)
        at = 0
        while at < len(differing) and differing[at] < tail:
            at = self._run(y, wanted, differing, at, tail)
        if at < len(differing):
            self.move(y, max(tail, differing[at]))
            self.take(pen_for(self.pen, wanted[-1]))
            self._parts.append("\x1b[K")

    def _erasable(self, wanted: Row, differing: Sequence[int]) -> int:
        """Return from where on the row is one blank that is better erased than written."""
        last = wanted[-1]
        if not erasable(last, coloured=self.erases):
            return self.width
        tail = self.width
        while tail and wanted[tail - 1] == last:
            tail -= 1
        changed = sum(1 for x in reversed(differing) if x >= tail)
        return tail if changed >= ERASE_FROM else self.width

    def _run(self, y: int, wanted: Row, differing: Sequence[int], at: int, tail: int) -> int:
        """Write changed cells that follow each other; return the index of the next to write."""
        x = differing[at]
        while not wanted[x][0] and x:
            x -= 1
        self.move(y, x)
        spoilt = 0
        while x < self.width:
            start, x = x, self._plain(wanted, x, differing, at, tail)
            if x == start:
                x = self._cell(wanted, x, differing, at)
            while at < len(differing) and differing[at] < x:
                at += 1
            if self.x is None:  # the next cells may have been written over
                spoilt = max(x + 1, start + most_cells(wanted[start][0]))
            if x < min(spoilt, self.width):
                self.move(y, x)
                continue
            next_one = differing[at] if at < len(differing) else tail
            if next_one >= tail or not self._bridges(wanted, x, next_one):
                break
        return at

    def _bridges(self, wanted: Row, x: int, to: int) -> bool:
        """Return whether to write the cells from ``x`` on takes no more than to go past them."""
        if to - x > BRIDGE or x == to:
            return x == to
        pen, cost = self.pen, 0
        for cell in wanted[x:to]:
            needed = pen_for(pen, cell)
            cost += len(change(pen, needed)) + len(cell[0].encode())
            pen = needed
        then = len(change(pen, pen_for(pen, wanted[to])))
        past = len(shortest_move(self.y, x, self.y or 0, to))
        return cost + then <= past + len(change(self.pen, pen_for(self.pen, wanted[to])))

    def _plain(self, wanted: Row, x: int, differing: Sequence[int], at: int, tail: int) -> int:
        """Write the changed cells that the pen at hand writes one by one; return the column behind.

        ``x`` where the first is not of that kind. A whole screen is made of such cells, and its
        first frame waits for every one that is looked at closely.
        """
        letters = []
        pen = self.pen
        for place, changed in zip(range(x, tail), islice(differing, at, None), strict=False):
            letter, needed = cell = wanted[place]
            if changed != place or (needed is not pen and pen_for(pen, cell) != pen):
                break
            following = wanted[place + 1 : place + 3]
            if not letter or doubtful(letter) or following == [cell, cell]:  # many take fewer bytes
                break
            if following and not following[0][0]:
                break
            letters.append(letter)
        if letters:
            x += len(letters)
            self._parts.append("".join(letters))
            self.x = x if x < self.width else None
        return x

    def _cell(self, wanted: Row, x: int, differing: Sequence[int], at: int) -> int:
        """Write one cell, or several that are equal; return the column behind."""
        letter = wanted[x][0]
        self.take(pen_for(self.pen, wanted[x]))
        after = x + 1
        while after < self.width and not wanted[after][0]:
            after += 1
        count = 1
        if self.repeats and after == x + 1 and not doubtful(letter):
            count = self._equal(wanted, x, differing, at)
        self._letter(letter, x, after)
        size = len(letter.encode())
        if count > 1 and (count - 1) * size > len(str(count - 1)) + 3:
            self._parts.append(f"\x1b[{count - 1}b")
            after = x + count
            self.x = after if after < self.width else None
        return after

    def _equal(self, wanted: Row, x: int, differing: Sequence[int], at: int) -> int:
        """Return how many equal cells begin here, up to the last that is to be written."""
        end = x + 1
        while end < self.width and wanted[end] == wanted[x]:
            end += 1
        last = bisect_left(differing, end, lo=at) - 1
        return differing[last] + 1 - x if last >= at else 1

    def _letter(self, letter: str, x: int, after: int) -> None:
        """Write what stands in the cells from ``x`` on, the cursor being there."""
        if doubtful(letter):  # first its cells emptied: it may take fewer, or more
            self._parts.append(" " * (after - x) + f"\x1b[{x + 1}G" + letter)
            self.x = None
        else:
            self._parts.append(letter)
            self.x = after if after < self.width else None


def pen_for(pen: Pen | None, cell: Cell) -> Pen:
    """Return what to write a cell with: an empty one asks little of the pen at hand."""
    letter, needed = cell
    return needed if pen is None or letter != " " else over_blank(pen, needed)


def shortest_move(y: int | None, x: int | None, to_y: int, to_x: int) -> str:
    """Return the shortest sequence that moves a cursor; ``None`` is an unknown row or column."""
    ways = [f"\x1b[{to_y + 1};{to_x + 1}H" if to_x else f"\x1b[{to_y + 1}H"]
    if not to_y and not to_x:
        ways.append("\x1b[H")
    if y == to_y:
        ways += _along(x, to_x)
    elif y is not None:
        ways += [down + along for down in _across(y, to_y) for along in _along(x, to_x)[:1]]
        if to_y - y in (1, 2):
            ways += ["\r" + "\n" * (to_y - y) + along for along in _along(0, to_x)]
    return min(ways, key=len)


def _across(y: int, to_y: int) -> list[str]:
    count = "" if abs(to_y - y) == 1 else str(abs(to_y - y))
    return [f"\x1b[{count}B" if to_y > y else f"\x1b[{count}A"]


def _along(x: int | None, to_x: int) -> list[str]:
    """Return ways along a row, the shortest first."""
    ways = [f"\x1b[{to_x + 1}G" if to_x else "\r"]
    if x is None:
        return ways
    by = abs(to_x - x)
    count = "" if by == 1 else str(by)
    if to_x > x:
        ways.append(f"\x1b[{count}C")
    elif to_x < x:
        ways += ["\b" * by if by < 3 else f"\x1b[{count}D"]
    else:
        ways.append("")
    return sorted(ways, key=len)
