"""How a run was in the last 24 hours, in half hours, as far as somebody watched it."""

from typing import Final

from cockpit.model.base import Frozen
from cockpit.model.goodput import UNWATCHED
from cockpit.model.lasting import lasts

CELL: Final = 1800.0
"""Seconds of one cell."""
CELLS: Final = 48
WORST_LAST: Final = ".sfhuac"
"""Nobody watched, sealed, finished, healthy, unknown, attention, critical: what a cell tells."""
UNSEEN: Final = WORST_LAST[0]
_LETTERS: Final = {
    "sealed": "s", "finished": "f", "healthy": "h", "unknown": "u", "attention": "a",
    "critical": "c",
}  # fmt: skip


class Day(Frozen):
    """A letter of ``WORST_LAST`` for each cell, the newest last: the worst that was seen in it.

    ``end`` is when the newest cell ends, ``at`` when a verdict was seen last, and ``last`` that
    one's letter. A time longer than two cadences between two looks was watched by nobody.
    """

    end: float = 0.0
    cells: str = UNSEEN * CELLS
    at: float | None = None
    last: str = UNSEEN

    def until(self, now: float) -> str:
        """Return the cells of the 24 hours up to ``now``."""
        if not self.end:
            return UNSEEN * CELLS
        lasts(_end(now) - now)
        passed = int((_end(now) - self.end) // CELL)
        return (self.cells + UNSEEN * max(0, min(passed, CELLS)))[-CELLS:]

    def with_look(self, at: float, verdict: str, cadence: float) -> "Day":
        """Return it with a verdict seen at ``at``; the one before held until then, if watched."""
        if self.at is not None and at < self.at:
            return self
        end, cells = _end(at), list(self.until(at))
        seen = _LETTERS[verdict]
        if self.at is not None and at - self.at <= UNWATCHED * cadence:
            first = CELLS - 1 - int((end - _end(self.at)) // CELL)
            for place in range(max(0, first), CELLS - 1):
                cells[place] = _worse(cells[place], self.last)
        cells[-1] = _worse(cells[-1], seen)
        return Day(end=end, cells="".join(cells), at=at, last=seen)


def _end(at: float) -> float:
    return (at // CELL + 1) * CELL


def _worse(one: str, other: str) -> str:
    return max(one, other, key=WORST_LAST.index)
