"""The lines of a log that a window holds: a stretch of the file, all of its lines or some."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from cockpit.model.logtext import LogPage
from cockpit.model.safetext import SafeText

MOST: Final = 4000
"""Lines that are held."""


class Buffer:
    """Lines of bytes ``[start, end)`` of a file of ``size`` bytes, and where each starts.

    ``gaps`` has for each how many lines are left out right before it, ``rest`` after the last.
    """

    def __init__(self) -> None:
        self.lines: list[SafeText] = []
        self.offsets: list[int] = []
        self.gaps: list[int] = []
        self.rest = 0
        self.start = self.end = self.size = 0

    @property
    def hidden(self) -> int:
        """How many lines of the stretch are left out."""
        return sum(self.gaps) + self.rest

    def take(self, page: LogPage) -> None:
        """Hold this page and nothing else."""
        self.lines, self.offsets = list(page.lines), list(page.offsets)
        self.gaps, self.rest = _gaps(page), page.rest
        self.start, self.end, self.size = page.start, page.end, page.size

    def take_end(self, page: LogPage) -> bool:
        """Take a newer end of the same text; return whether it is that: else nothing is taken."""
        at = bisect_left(self.offsets, page.start)
        held = self.lines[at:-1]
        if self.start > page.start or not held or held != list(page.lines[: len(held)]):
            return False
        self.lines[at:], self.offsets[at:], self.gaps[at:] = page.lines, page.offsets, _gaps(page)
        self.end, self.size, self.rest = page.end, page.size, page.rest
        self.drop_first(len(self.offsets) - MOST)
        return True

    def add_before(self, page: LogPage) -> int:
        """Take a page that ends where this begins; return how many lines came and stayed."""
        if page.end != self.start or page.start == page.end:
            return 0
        if self.gaps:
            self.gaps[0] += page.rest
        else:
            self.rest += page.rest
        self.lines[:0], self.offsets[:0], self.gaps[:0] = page.lines, page.offsets, _gaps(page)
        self.start, self.size = page.start, page.size
        self.drop_last(len(self.offsets) - MOST)
        return len(page.lines)

    def add_after(self, page: LogPage) -> bool:
        """Take a page that begins where this ends, or at its last line, which was unfinished."""
        if not self.start <= page.start <= self.end or page.start == page.end:
            return False
        at = bisect_left(self.offsets, page.start)
        if at < len(self.offsets):
            before = self.gaps[at]
        else:
            before = max(0, self.rest - (page.start < self.end))
        gaps = _gaps(page)
        del self.lines[at:], self.offsets[at:], self.gaps[at:]
        self.rest = page.rest if gaps else before + page.rest
        self.lines += page.lines
        self.offsets += page.offsets
        self.gaps += [gaps[0] + before, *gaps[1:]] if gaps else []
        self.end, self.size = page.end, page.size
        return True

    def drop_first(self, count: int) -> None:
        """Let the first lines go."""
        if count > 0:
            del self.lines[:count], self.offsets[:count], self.gaps[:count]
            self.start, self.gaps[0] = self.offsets[0], 0

    def drop_last(self, count: int) -> None:
        """Let the last lines go."""
        if count > 0:
            self.end, self.rest = self.offsets[-count], self.gaps[-count]
            del self.lines[-count:], self.offsets[-count:], self.gaps[-count:]


def _gaps(page: LogPage) -> list[int]:
    return list(page.gaps) or [0] * len(page.lines)
