"""Reads a local log for the screen: blocking work in daemon threads, one question at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cockpit.model.report import RunReport
from cockpit.sources.log_file import Hit, LogFile, Page
from cockpit.sources.offload import offload
from widgets.log_view import LogPage

DEADLINE: Final = 10.0
PAGE: Final = 600
"""Lines read at once; around a place, half before and half after."""
SLICE: Final = 0.15
"""Seconds that one step of a search takes, so that it can be stopped and can tell how far."""


@dataclass(frozen=True)
class LogReader:
    """The log at one path. Raises ``OSError``, ``TimeoutError`` and, searching, ``ValueError``."""

    path: str

    async def tail(self, count: int) -> LogPage:
        """Return the last lines."""
        return _page(await offload(LogFile(self.path).tail, count, deadline=DEADLINE))

    async def more(self, offset: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return _page(await offload(LogFile(self.path).page, offset, PAGE, back, deadline=DEADLINE))

    async def around(self, offset: int) -> LogPage:
        """Return lines on both sides of the one that starts at ``offset``."""
        before = await self.more(offset, back=True)
        after = await self.more(offset, back=False)
        return LogPage(
            before.lines + after.lines,
            before.offsets + after.offsets,
            before.start,
            after.end,
            after.size,
        )

    async def find(
        self, term: str, offset: int, back: bool, told: Callable[[int], None]
    ) -> Hit | None:
        """Return the next match; ``told`` is given the offset reached, now and then."""
        log = LogFile(self.path)
        while True:
            hit = await offload(log.search, term, offset, back, SLICE, deadline=DEADLINE)
            if hit is None or hit.found:
                return hit
            offset = hit.offset
            told(offset)


def local_log(report: RunReport) -> str | None:
    """Return the path of the run's log if it lies on this machine and is known."""
    log, job = report.facets.log.value, report.spec.job
    if log is None or "://" in log.path or (job is not None and job.host):
        return None
    return log.path


def held_lines(report: RunReport) -> LogPage:
    """Return the last lines that the source has brought, as a page of their own."""
    log = report.facets.log.value
    lines = log.lines if log is not None else ()
    ends = 0
    offsets = []
    for line in lines:
        offsets.append(ends)
        ends += len(line.plain) + 1
    return LogPage(lines, tuple(offsets), 0, ends, ends)


def _page(page: Page) -> LogPage:
    return LogPage(page.lines, page.offsets, page.start, page.end, page.size)
