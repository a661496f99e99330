"""The log tab: reads the file in threads to follow, page, search, and jump to evidence."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final

from cockpit.model.observed import LogPage
from cockpit.model.report import RunReport
from cockpit.runtime.offload import offload
from cockpit.sources.logs.file import Hit, LogFile
from screens.base import Work
from widgets.log_view import LogView, Regex, term_of
from widgets.painting.facts import reason

Start = Callable[[Work], Callable[[], None]]
"""Does some work, ending the one before it; returns how to end this one."""
TAIL_LINES: Final = 400
EVIDENCE_TERM: Final = 60
_STEP: Final = re.compile(r"\bstep (\d[\d,]*)")
DEADLINE: Final = 10.0
PAGE: Final = 600
"""Lines read at once; around a place, half before and half after."""
SLICE: Final = 0.15
"""Seconds that one step of a search takes, so that it can be stopped and can tell how far."""


class LogTab:
    """Stands between a log view and a file."""

    def __init__(self, view: LogView, start: Start) -> None:
        self._view = view
        self._start = start
        self._reader: LogReader | None = None
        self._seen: tuple[object, ...] | None = None
        self._report: RunReport | None = None
        self._end_search: Callable[[], None] | None = None

    def show(self, report: RunReport) -> None:
        """Take a new report: while following, read the new end."""
        self._report = report
        path = local_log(report)
        log = report.facets.log.value
        seen = None if log is None else (log.path, log.size, log.mtime, log.inode)
        if self._seen is None:
            self._view.show_tail(held_lines(report))
        self._reader = None if path is None else LogReader(path)
        if self._reader is None and log is None:
            self._view.say(f"nothing to show: {reason(report.facets.log)}")
        if seen != self._seen and self._view.following:
            self._seen = seen
            self._tail()

    def follow(self) -> None:
        """Follow the end, or hold still."""
        if self._view.following:
            self._view.hold()
            return
        self._view.following = True
        self._view.say("")
        self._tail()

    def home(self) -> None:
        """Go to the first line."""
        self._view.hold()
        self._go(0)

    def wanted(self, offset: int, back: bool) -> None:
        """Read what the view needs next."""
        if self._reader is not None:
            more = partial(self._reader.more, offset, back)
            self._start(partial(self._read, more, partial(self._view.extend, back=back)))

    def search(self, term: str) -> None:
        """Search: from the end upwards while following, else from the cursor down.

        ``/…/`` is a regular expression.
        """
        term = term_of(term)
        self._view.mark(term)
        if term:
            following = self._view.following
            self._view.hold()
            self._find(term, self._view.place[1 if following else 0], back=following)

    def step(self, back: bool) -> None:
        """Go to the next match below or above."""
        term = self._view.term
        if term:
            here, after = self._view.place
            self._find(term, here if back else after, back)

    def stop(self) -> bool:
        """End a search that is still running; return whether there was one."""
        if self._end_search is None:
            return False
        self._end_search()
        self._end_search = None
        self._view.say("search stopped")
        return True

    def jump(self, report: RunReport) -> str | None:
        """Go to the worst alert's evidence in the log; return why not, if it has none."""
        term = evidence_term(report)
        if term is None:
            return "no alert here points into the log"
        self._view.hold()
        self._view.mark(term)
        self._find(term, 1 << 62, back=True)
        return None

    def _tail(self) -> None:
        """Show the end: as the source has read it, from the file only if that was long ago."""
        report = self._report
        log = None if report is None else report.facets.log.value
        if self._reader is not None and (log is None or not log.offsets):
            read = partial(self._reader.tail, max(TAIL_LINES, self._view.room))
            self._start(partial(self._read, read, self._show_tail))
        elif report is not None:
            if self._reader is not None:
                self._view.say("")
            self._view.show_tail(held_lines(report))

    def _show_tail(self, page: LogPage) -> None:
        if self._view.following:
            self._view.say("")
            self._view.show_tail(page)

    def _go(self, offset: int) -> None:
        if self._reader is not None:
            around = partial(self._reader.around, offset)
            self._start(partial(self._read, around, partial(self._view.show_at, offset=offset)))

    def _find(self, term: str, offset: int, back: bool) -> None:
        if self._reader is not None:
            self._end_search = self._start(partial(self._search, self._reader, term, offset, back))
        else:
            self._view.say("only the last lines are here; no file to search")

    async def _read(
        self, read: Callable[[], Awaitable[LogPage]], show: Callable[[LogPage], None]
    ) -> None:
        try:
            show(await read())
        except (OSError, TimeoutError) as error:
            self._view.say(_trouble(error))

    async def _search(self, reader: LogReader, term: str, offset: int, back: bool) -> None:
        def on_progress(reached: int) -> None:
            self._view.say(f"searching, at {reached / 1e6:,.0f} MB (esc stops)")

        try:
            hit: Hit | None = await reader.find(term, offset, back, on_progress)
        except (OSError, TimeoutError, ValueError) as error:
            self._view.say(_trouble(error))
            return
        finally:
            self._end_search = None
        if hit is None:
            self._view.say("no match above" if back else "no match below")
            return
        self._view.say("")
        around = partial(reader.around, hit.offset)
        await self._read(around, partial(self._view.show_at, offset=hit.offset))


def evidence_term(report: RunReport) -> str | None:
    """Return what to look for: a line that an alert quotes from the log, else its step."""
    log = report.facets.log.value
    quoted = report.facets.log.source
    for alert in report.alerts:
        for each in alert.evidence:
            if each.source == quoted or each.source.startswith(f"{quoted}:"):
                return each.text.strip(" …")[:EVIDENCE_TERM]
        steps = (_STEP.search(each.text) for each in alert.evidence)
        step = next((found for found in steps if found is not None), None)
        if step is not None:
            return f"step {step.group(1).replace(',', '')}"
    triage = log.triage if log is not None else None
    if triage is not None and triage.evidence:
        return triage.evidence[0].text.strip()[:EVIDENCE_TERM]
    return None


def _trouble(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "the file did not answer in time" if isinstance(error, TimeoutError) else str(error)


@dataclass(frozen=True)
class LogReader:
    """The log at one path. Raises ``OSError``, ``TimeoutError`` and, searching, ``ValueError``."""

    path: str

    async def tail(self, count: int) -> LogPage:
        """Return the last lines."""
        return await offload(LogFile(self.path).tail, count, deadline=DEADLINE)

    async def more(self, offset: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return await offload(LogFile(self.path).page, offset, PAGE, back, deadline=DEADLINE)

    async def around(self, offset: int) -> LogPage:
        """Return lines on both sides of the one that starts at ``offset``."""
        before = await self.more(offset, back=True)
        after = await self.more(offset, back=False)
        lines, offsets = before.lines + after.lines, before.offsets + after.offsets
        return LogPage(lines, offsets, before.start, after.end, after.size)

    async def find(
        self, term: str, offset: int, back: bool, on_progress: Callable[[int], None]
    ) -> Hit | None:
        """Return the next match; ``on_progress`` is given the offset reached, now and then."""
        log, regex = LogFile(self.path), isinstance(term, Regex)
        while True:
            hit = await offload(log.search, term, offset, back, SLICE, regex, deadline=DEADLINE)
            if hit is None or hit.found:
                return hit
            offset = hit.offset
            on_progress(offset)


def local_log(report: RunReport) -> str | None:
    """Return the path of the run's log if it lies on this machine and is known.

    Imports here: the first frame is shown before any platform is loaded.
    """
    from cockpit.platforms.table import kind_of

    log, kind = report.facets.log.value, kind_of(report.spec)
    place = None if log is None or kind is None else kind.log_place(report.spec, log)
    return None if place is None else place.path


def held_lines(report: RunReport) -> LogPage:
    """Return the last lines that the source has brought; where it is not known, placed anew."""
    log = report.facets.log.value
    if log is None:
        return LogPage((), (), 0, 0, 0)
    if log.offsets:
        return LogPage(log.lines, log.offsets, log.offsets[0], log.size, log.size)
    ends = [0, *accumulate(len(line.plain) + 1 for line in log.lines)]
    return LogPage(log.lines, tuple(ends[:-1]), 0, ends[-1], ends[-1])
