"""Which rows of an online run were read, and which to ask for next.

The server knows rows by ``_step``, which counts calls of ``log`` (or is what was passed to it:
then it has gaps). The newest rows are read first and at every look; the older ones follow in
order from the very first, some pages at a look, until both meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

RECENT: Final = 1000
"""Newest rows that are read at once: rules look back over a few hundred."""
KEPT: Final = 4000
"""Newest rows that are kept."""
PAGE: Final = 1000
"""Rows in one page at most, as the client itself asks for them."""
READ_AHEAD: Final = 40_000
"""Rows that wait to be given out, above which no older ones are asked for."""
PATIENT: Final = 3
"""Looks after which steps that the summary tells of and the history lacks are given up."""
_DENSE: Final = 0.8
"""The share of a page's rows that a range of steps is chosen for: rows lie unevenly."""

Raw = dict[str, float]
"""The numbers of one row that may matter, by their logged names; ``_step`` is among them."""


class Page(NamedTuple):
    """The rows of steps ``low`` to ``high`` (exclusive), at most ``most`` of them."""

    low: int
    high: int
    most: int

    def holds(self, rows: Sequence[Raw]) -> list[Raw]:
        """Return the rows that belong to it, each step once, in order."""
        inside = {step_of(row): row for row in rows if self.low <= step_of(row) < self.high}
        return [inside[step] for step in sorted(inside)]

    def whole(self, rows: Sequence[Raw]) -> bool:
        """Tell whether no row can have been left out: servers thin out what is too much."""
        return self.high - self.low <= self.most or len(rows) < self.most


def step_of(row: Raw) -> int:
    """Return a row's ``_step``; -1 for a row without one."""
    return int(row.get("_step", -1))


class Ledger:
    """The rows of one run as far as they are read.

    ``recent`` holds those of steps ``low`` to ``head``, ``older`` those from the first one on
    that nobody has taken yet; all below ``cursor`` were given out or wait there. ``begun`` tells
    that rows were asked for.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.last: int | None = None
        self.lines: int | None = None
        self.growth = 0
        self.recent: deque[Raw] = deque()
        self.older: deque[Raw] = deque()
        self.low = self.head = self.cursor = 0
        self.begun = False
        self._empty = 0
        self._to_the_end = False
        self._narrower = 1

    def know(self, last: int | None, lines: int | None) -> bool:
        """Take in the newest step and the number of rows; return whether all began anew."""
        shrunk = self.lines is not None and lines is not None and lines < self.lines
        anew = shrunk and last is not None and last + 1 < self.head
        if anew:
            self._clear()
        if last is not None and self.last is not None:
            self.growth = max(last - self.last, self.growth // 2)
        self.last = last if last is not None else self.last
        self.lines = lines if lines is not None else self.lines
        return anew

    @property
    def behind(self) -> int:
        """Steps that the server has beyond the newest row that was read."""
        return 0 if self.last is None else max(0, self.last + 1 - self.head)

    @property
    def unread(self) -> int:
        """Steps of older rows that are to be read yet."""
        return max(0, self.low - self.cursor) if self.begun else 0

    @property
    def holed(self) -> bool:
        """Tell whether many rows are still to be read: more than come between two looks."""
        return self.unread > 0 or self.behind > 2 * self._span(RECENT)

    @property
    def caught_up(self) -> bool:
        """True when nothing more was there to be given out at the last look."""
        if self.last is None:
            return True
        nothing = self._empty > 0 and self._to_the_end
        seen = self.begun and (self.head > self.last or nothing)
        return seen and not self.older and self.cursor >= self.head

    @property
    def share(self) -> float:
        """How much of the run's steps the rows read in order so far cover, 0 to 1."""
        if self.last is None or self.caught_up:
            return 1.0
        return min(1.0, self.cursor / (self.last + 1))

    def newest(self, rows: int) -> Page | None:
        """Return the page to ask for next at the run's end, ``None`` while it has no rows."""
        if self.last is None:
            return None
        if not self.begun or self.behind > 2 * self._span(RECENT):
            self.begun = True
            self.low = self.head = max(self.cursor, self.last + 1 - self._span(min(rows, RECENT)))
            self.recent.clear()
        rows = max(1, min(rows, PAGE))
        return Page(self.head, self.head + self._span(rows), rows)

    def pages(self, rows: int) -> list[Page]:
        """Return pages of about ``rows`` older rows, oldest first."""
        found: list[Page] = []
        at = self.cursor
        while rows > 0 and at < self.low and self.begun:
            high = min(at + self._span(min(rows, PAGE)), self.low)
            found.append(Page(at, high, min(rows, PAGE)))
            rows -= PAGE
            at = high
        return found

    def take_newest(self, page: Page, rows: Sequence[Raw]) -> None:
        """Take in what a page at the end holds; a row that is not there yet is asked for again."""
        if page.low != self.head:
            return
        if not page.whole(rows):
            self._narrower *= 2
            return
        held = page.holds(rows)
        self._to_the_end = self.last is not None and page.high > self.last
        self.recent.extend(held)
        self._empty = 0 if held or not self.behind else self._empty + 1
        if held:
            self.head = step_of(held[-1]) + 1
        elif self._empty >= PATIENT and self.last is not None:
            self.head, self._empty = min(page.high, self.last + 1), 0
        while len(self.recent) > KEPT:
            self.low = step_of(self.recent.popleft()) + 1

    def take(self, page: Page, rows: Sequence[Raw]) -> None:
        """Take in a page of older rows; one that may lack some is asked for again, narrower."""
        if page.low != self.cursor:
            return
        if not page.whole(rows):
            self._narrower *= 2
            return
        self.older.extend(page.holds(rows))
        self.cursor = page.high

    def next(self) -> list[Raw]:
        """Give out the rows that come next in order, as far as they are read."""
        rows = list(self.older)
        self.older.clear()
        if self.begun and self.cursor >= self.low:
            rows += [row for row in self.recent if step_of(row) >= self.cursor]
            self.cursor = max(self.cursor, self.head)
        return rows

    def rewind(self) -> None:
        """Give out every row from the first one again."""
        self.older.clear()
        self.cursor = 0

    def _span(self, rows: int) -> int:
        """Return how many steps to ask for so that about ``rows`` rows come, never more."""
        if not self.lines or self.last is None:
            return rows
        density = min(1.0, self.lines / (self.last + 1))
        return max(rows, int(_DENSE * rows / density / self._narrower))


def rows_of(parts: Iterable[Sequence[Raw]]) -> list[Raw]:
    """Return the rows that several lists of parts of rows make, joined by their steps."""
    joined: dict[int, Raw] = {}
    for part in parts:
        for row in part:
            joined.setdefault(step_of(row), {}).update(row)
    return [joined[step] for step in sorted(joined)]
