"""The log tab: asks for pages of the log to follow, page, search, and jump to evidence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

from textual.worker import Worker

from cockpit.model.alert import Alert
from cockpit.model.logtext import Hit, LogPage
from cockpit.model.report import RunReport
from screens.base import Work
from screens.evidence import Found, Seeker, Target, targets_of, triage_targets
from screens.ports import Logs
from widgets.log_view import LogView, Regex, term_of
from widgets.painting.facts import reason

Start = Callable[[Work], Worker[Any]]
"""Does some work, ending the one before it."""
TAIL_LINES: Final = 400
PAGE: Final = 600
"""Lines read at once; around a place, half before and half after."""


class LogTab:
    """Stands between a log view and a file."""

    def __init__(self, view: LogView, start: Start, logs: Logs) -> None:
        self._view = view
        self._logs = logs
        self._start = start
        self._reader: LogReader | None = None
        self._seen: tuple[object, ...] | None = None
        self._report: RunReport | None = None
        self._jumped: str | None = None
        self._looking: Worker[Any] | None = None

    def show(self, report: RunReport) -> None:
        """Take a new report: while following, read the new end."""
        self._report = report
        here = self._logs.place(report.name) is not None
        log = report.facets.log.value
        seen = None if log is None else (log.path, log.size, log.mtime, log.inode)
        if self._seen is None:
            self._view.show_tail(held_lines(report), placed=log is None or bool(log.offsets))
        elif log is not None and not self._view.following:
            self._view.grown(log.size)
        self._reader = LogReader(self._logs, report.name) if here else None
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
        if self._looking is None or self._looking.is_finished:
            return False
        self._looking.cancel()
        self._view.say("search stopped")
        return True

    def jump(self, report: RunReport, alert: Alert | None = None) -> str | None:
        """Go to an alert's evidence: this one's, else the worst's, then each next one's in turn.

        Return why not, if there is none.
        """
        words = "the triage's line"
        targets: Sequence[Target] = triage_targets(report)
        alert = alert or self._next_alert(report)
        if alert is not None:
            targets, self._jumped = targets_of(report, alert), alert.key
            place = next((n for n, one in enumerate(report.alerts, 1) if one is alert), None)
            words = alert.id if place is None else f"{alert.id} ({place} of {len(report.alerts)})"
        if not targets:
            return "no alert is open here"
        self._view.hold()
        if self._reader is None:
            self._view.say("only the last lines are here; no file to search")
            return None
        self._seek(self._reader, report, targets, words)
        return None

    def _next_alert(self, report: RunReport) -> Alert | None:
        """Return the alert after the one that was gone to last, the worst at first."""
        keys = [alert.key for alert in report.alerts]
        at = keys.index(self._jumped) + 1 if self._jumped in keys else 0
        return report.alerts[at % len(keys)] if keys else None

    def _seek(
        self, reader: LogReader, report: RunReport, targets: Sequence[Target], words: str
    ) -> None:
        def find(term: str) -> Awaitable[Hit | None]:
            return reader.find(term, 1 << 62, True, self._on_progress)

        async def first() -> Found | None:
            found = await Seeker(reader.logs, report, find).first(targets)
            return None if found is None else found._replace(words=f"{words}: {found.words}")

        self._view.say(f"{words}: looking for its evidence (esc stops)")
        lacks = f"{words}: nothing of its evidence stands in this log"
        self._looking = self._start(partial(self._go_to, reader, first, lacks))

    def _on_progress(self, reached: int) -> None:
        self._view.say(f"searching, at {reached / 1e6:,.0f} MB (esc stops)")

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
            placed = log is None or bool(log.offsets)
            self._view.show_tail(held_lines(report), placed=placed)

    def _show_tail(self, page: LogPage) -> None:
        if self._view.following or not self._view.placed:
            self._view.say("")
            self._view.show_tail(page)

    def _go(self, offset: int) -> None:
        if self._reader is not None:
            around = partial(self._reader.around, offset)
            self._start(partial(self._read, around, partial(self._view.show_at, offset=offset)))

    def _find(self, term: str, offset: int, back: bool) -> None:
        if self._reader is None:
            self._view.say("only the last lines are here; no file to search")
            return
        reader = self._reader

        async def next_one() -> Found | None:
            hit = await reader.find(term, offset, back, self._on_progress)
            return None if hit is None else Found(hit.offset, term, "")

        lacks = "no match above" if back else "no match below"
        self._looking = self._start(partial(self._go_to, reader, next_one, lacks))

    async def _read(
        self, read: Callable[[], Awaitable[LogPage]], show: Callable[[LogPage], None]
    ) -> None:
        try:
            show(await read())
        except (OSError, TimeoutError) as error:
            self._view.say(_trouble(error))

    async def _go_to(
        self, reader: LogReader, look: Callable[[], Awaitable[Found | None]], lacks: str
    ) -> None:
        """Go to what is found, and say what it is."""
        try:
            found = await look()
            page = None if found is None else await reader.around(found.offset)
        except (OSError, TimeoutError, ValueError) as error:
            self._view.say(_trouble(error))
            return
        if found is None or page is None:
            self._view.say(lacks)
            return
        self._view.mark(found.mark)
        self._view.show_at(page, found.offset)
        self._view.say(found.words)


def _trouble(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "the file did not answer in time" if isinstance(error, TimeoutError) else str(error)


@dataclass(frozen=True)
class LogReader:
    """The log of one run. Raises ``OSError``, ``TimeoutError`` and, searching, ``ValueError``."""

    logs: Logs
    run: str

    async def tail(self, count: int) -> LogPage:
        """Return the last lines."""
        return await self.logs.tail(self.run, count)

    async def more(self, offset: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return await self.logs.page(self.run, offset, PAGE, back)

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
        search = self.logs.find if isinstance(term, Regex) else self.logs.search
        while True:
            hit = await search(self.run, term, offset, back)
            if hit is None or hit.found:
                return hit
            offset = hit.offset
            on_progress(offset)


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
