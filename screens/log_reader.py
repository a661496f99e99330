"""A run's log as the log tab reads it: in pages, from where it is shown, all lines or some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from cockpit.model.logtext import Hit, LogPage
from cockpit.model.report import RunReport
from screens.ports import Logs
from widgets.log_view import BEYOND
from widgets.painting.logline import Regex

PAGE: Final = 600
"""Lines read at once; around a place, half before and half after."""


@dataclass(frozen=True)
class LogReader:
    """The log of one run. Raises ``OSError``, ``TimeoutError`` and, searching, ``ValueError``.

    Nothing before ``floor`` is shown. With ``sifts`` only warnings and errors are read: a page
    may then have few lines, or none, and tells how far was looked.
    """

    logs: Logs
    run: str
    floor: int = 0
    sifts: bool = False

    async def tail(self, count: int) -> LogPage:
        """Return the last lines."""
        if self.sifts:
            return await self.more(BEYOND, back=True)
        return since(await self.logs.tail(self.run, count), self.floor)

    async def more(self, offset: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        if self.sifts:
            return await self.logs.sift(self.run, offset, PAGE, back, self.floor)
        return since(await self.logs.page(self.run, offset, PAGE, back), self.floor)

    async def around(self, offset: int) -> LogPage:
        """Return lines on both sides of the one that starts at ``offset``."""
        before = await self.more(offset, back=True)
        after = await self.more(offset, back=False)
        lines, offsets = before.lines + after.lines, before.offsets + after.offsets
        gaps, rest = before.gaps, before.rest + after.rest
        if after.gaps:
            gaps, rest = (*gaps, after.gaps[0] + before.rest, *after.gaps[1:]), after.rest
        return LogPage(lines, offsets, before.start, after.end, after.size, gaps, rest)

    async def find(
        self, term: str, offset: int, back: bool, on_progress: Callable[[int], None]
    ) -> Hit | None:
        """Return the next match; ``on_progress`` is given the offset reached, now and then."""
        search = self.logs.find if isinstance(term, Regex) else self.logs.search
        while True:
            hit = await search(self.run, term, offset, back)
            if hit is None or (back and hit.offset < self.floor):
                return None
            if hit.found:
                return hit
            offset = hit.offset
            on_progress(offset)


def since(page: LogPage, floor: int) -> LogPage:
    """Return of a page what starts at ``floor`` or behind it."""
    if page.start >= floor:
        return page
    at = bisect_left(page.offsets, floor)
    end = max(page.end, floor)
    return LogPage(page.lines[at:], page.offsets[at:], min(floor, end), end, page.size)


def held_lines(report: RunReport) -> LogPage:
    """Return the last lines that the source has brought.

    Of remembered ones nobody knows where in the file they stand: they are placed from 0 on,
    and the view must not speak of places.
    """
    log = report.facets.log.value
    if log is None:
        return LogPage((), (), 0, 0, 0)
    if log.offsets:
        return LogPage(log.lines, log.offsets, log.offsets[0], log.size, log.size)
    ends = [0, *accumulate(len(line.plain) + 1 for line in log.lines)]
    return LogPage(log.lines, tuple(ends[:-1]), 0, ends[-1], ends[-1])
