"""The log tab: pages, search with its count, filter, and the place an alert speaks of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from textual.worker import Worker

from cockpit.model.alert import Alert
from cockpit.model.logtext import Bookmark, Hit, LogPage, Near, bookmark
from cockpit.model.report import RunReport
from screens.base import Work
from screens.bookmarks import GONE, RunMarks
from screens.log_reader import (
    HOW,
    LogPlace,
    LogReader,
    Seeker,
    Share,
    Target,
    begin_of,
    held_lines,
    quotes_of,
    since,
    target_of,
    targets_of,
    triage_targets,
)
from screens.ports import Logs
from widgets.log_view import Count, LogView
from widgets.painting.facts import reason
from widgets.painting.logline import Regex, term_of

T = TypeVar("T")
MOST: Final = 100_000
"""Matching lines that are counted at most."""
MOST_BYTES: Final = 4 << 30
"""Bytes of a log that are counted at most, from where it is shown."""


class Counting:
    """Counts for one view; ``start`` does some work, ending the one before it."""

    def __init__(self, view: LogView, start: Callable[[Work], Worker[Any]]) -> None:
        self._view = view
        self._start = start
        self._at = self._seen = 0
        self._offsets: list[int] = []
        self._over = True
        self._part = False
        self._counts: tuple[str, int] | None = None

    def forget(self) -> None:
        """Take that something else is searched for, or the same anew."""
        self._counts = None

    def begin(self, reader: LogReader, *, anew: bool = True) -> None:
        """Count what the view marks: ``anew``, or only if that was not begun already."""
        if not anew and self._counts == (self._view.term, reader.floor):
            return
        self._offsets, self._at, self._seen = [], reader.floor, 0
        self._over, self._part = False, False
        term = self._view.term
        self._counts = (term, reader.floor)
        self._start(partial(self._count, reader, term))

    def grown(self, reader: LogReader, size: int) -> None:
        """Count on, where all was counted and the log has more by now; anew where it has less."""
        if self._counts is not None and size < self._seen:
            self.begin(reader)
            return
        if self._over and self._view.term and not self._part and size > self._seen:
            self._over = False
            self._start(partial(self._count, reader, self._view.term))

    async def _count(self, reader: LogReader, term: str) -> None:
        """Count slice by slice; what cannot be counted is not said to be."""
        while not self._over:
            try:
                found = await reader.logs.matches(
                    reader.run, term, isinstance(term, Regex), self._at
                )
            except (OSError, TimeoutError, ValueError):  # the search itself says so
                self._over = self._part = True
                return
            if self._view.term != term:
                return
            self._part |= found.begin > self._at
            new = [at for at in found.offsets if not self._offsets or at > self._offsets[-1]]
            self._offsets += new
            far = found.reached - reader.floor > MOST_BYTES or len(self._offsets) >= MOST
            self._over = far or found.reached in (self._at, found.size)
            self._part |= far
            self._at, self._seen = found.reached, found.size
            self._view.count(Count(self._offsets, self._over and not self._part))


Start = Callable[[str, Work], Worker[Any]]
"""Does some work, ending the one before it of the same kind."""
TAIL_LINES: Final = 400
MOST_EMPTY: Final = 40
"""Pages without any line that are read on for one key: then a person says whether to go on."""
NO_FILE: Final = "only the last lines are available; nothing to search"


class LogTab:
    """Stands between a log view and a file."""

    def __init__(self, view: LogView, start: Start, logs: Logs, marks: RunMarks) -> None:
        self._view = view
        self._logs = logs
        self._start = partial(start, "log")
        self._look_up = partial(start, "bookmarks")
        self._counting = Counting(view, partial(start, "count"))
        self.marks = marks
        self._looked: object = None
        self._seen: tuple[object, ...] | None = None
        self._report: RunReport | None = None
        self._jumped: str | None = None
        self._looking: Worker[Any] | None = None
        self._begun: object = None
        self._empty = 0

    @property
    def reader(self) -> LogReader | None:
        """The log as it is shown now, if it can be read in pages."""
        report, view = self._report, self._view
        if report is None or self._logs.place(report.name) is None:
            return None
        return LogReader(self._logs, report.name, view.floor, view.sifted)

    @property
    def file(self) -> object:
        """The identity of the shown file: it differs for another file of the same name."""
        log = None if self._report is None else self._report.facets.log.value
        return None if log is None else (log.path, log.inode)

    def show(self, report: RunReport) -> None:
        """Take a new report: while following, read the new end."""
        former, self._report = self.file, report
        if self._view.floor and former != self.file:
            self._view.floor = begin_of(report) or 0
        self._view.quoted(quotes_of(report))
        self.look_at_marks(report)
        log, reader = report.facets.log.value, self.reader
        seen = None if log is None else (log.path, log.size, log.mtime, log.inode)
        if self._seen is None:
            self._view.show_tail(held_lines(report), placed=log is None or bool(log.offsets))
        elif log is not None and not self._view.following:
            self._view.grown(log.size)
        if reader is None and log is None:
            self._view.say(f"nothing to show: {reason(report.facets.log)}")
        elif reader is not None and log is not None:
            self._counting.grown(reader, log.size)
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
        self._go(self._view.floor)

    def moved(self) -> None:
        """Take that a person has moved: what was given up for now may be read on."""
        self._empty = 0

    def wanted(self, offset: int, back: bool) -> None:
        """Read what the view needs next; of what is sifted only so much for one key."""
        reader = self.reader
        if reader is None:
            return
        if self._empty >= MOST_EMPTY:
            self._view.enough()
            self._view.say(f"none further {'up' if back else 'down'} so far: page on to look")
            return

        async def more() -> LogPage:
            try:
                return await reader.more(offset, back)
            finally:
                self._view.enough()

        def extend(page: LogPage) -> None:
            self._empty = 0 if page.lines else self._empty + 1
            self._view.extend(page, back)

        self._start(partial(self._read, more, extend))

    def sift(self) -> None:
        """Show only warnings and errors, or all lines again."""
        if self.reader is None:
            self._view.say("only the last lines are available; nothing to filter")
            return
        self._view.sifted = not self._view.sifted
        self._show_anew()

    def this_job(self) -> str | None:
        """Show only the present job's lines, or all again; return why not, where that is unknown.

        They begin where its launcher has noted it, else at the line nearest to its start.
        """
        report, reader = self._report, self.reader
        if self._view.floor:
            self._view.floor = 0
            self._show_anew()
        elif report is None or reader is None:
            return NO_FILE
        elif (begin := begin_of(report)) is not None:
            self._from(Near(begin, 0.0))
        elif (job := report.facets.job.value) is not None and job.started_at is not None:
            nearest = partial(reader.logs.nearest_time, reader.run, job.started_at, 0)
            self._start(partial(self._read, nearest, self._from))
        else:
            return "unknown where this job's lines begin: its launcher recorded no start"
        return None

    def _from(self, begin: Near | None) -> None:
        if begin is None:
            self._view.say("unknown where this job's lines begin: no line has a timestamp")
            return
        self._view.floor = begin.offset
        if begin.offset == 0:
            self._view.say("the whole log is of this job")
        self._show_anew()

    def _show_anew(self) -> None:
        """Read the shown lines again, with the present filters."""
        self._empty, self._begun = 0, None
        reader = self.reader
        if self._view.term and reader is not None:
            self._counting.begin(reader)
        if self._view.following:
            self._tail()
        else:
            self._go(max(self._view.floor, self._view.place[0]))

    def look_at_marks(self, report: RunReport) -> None:
        """Look up bookmarks that nobody has looked up: in a log of a former session, or anew."""
        log = report.facets.log.value
        if log is None:
            return
        place = self._logs.place(report.name)
        self.marks.show(place or log.path, log.size)
        self._show_bookmarks()
        seen = (log.path, log.size, log.mtime)
        if place is not None and seen != self._looked and self.marks.unseen:
            self._looked = seen
            self._look_up(partial(self._read, self.marks.look_up, lambda _: self._show_bookmarks()))

    def bookmark(self) -> str:
        """Keep the line at the cursor, or forget it; return what was done."""
        report, (lines, offsets) = self._report, self._view.up_to_cursor
        log = None if report is None else report.facets.log.value
        if not offsets or report is None or log is None:
            return "cannot bookmark: the position of these lines in the file is unknown"
        self._view.hold()
        place = self._logs.place(report.name) or log.path
        last = self._view.place[1] >= max(self._view.end, log.size)
        said = self.marks.toggle(bookmark(report.name, place, lines, offsets, last=last))
        self._show_bookmarks()
        return said

    def next_bookmark(self) -> str | None:
        """Go to the next bookmark below the cursor, after the last to the first."""
        kept = self.marks.here
        if not kept:
            gone = any(self.marks.why(mark) == GONE for mark in self.marks.all)
            return f"no bookmark left in this log: {GONE}" if gone else "no bookmark in this log"
        here = self._view.place[0]
        at = next((n for n, mark in enumerate(kept) if mark.offset > here), 0)
        return self.open_bookmark(kept[at], f"bookmark {at + 1} of {len(kept)}")

    def open_bookmark(self, mark: Bookmark, words: str = "bookmark") -> str | None:
        """Go to a line that was kept; return why not. One that has gone is said so, and removed."""
        if self.marks.why(mark) == GONE:
            self.marks.forget(mark)
            return f"{GONE}; bookmark removed"
        if mark not in self.marks.here:
            return self.marks.why(mark)
        self._go_soon(partial(self._bookmark_place, mark, words), "")
        return None

    async def _bookmark_place(self, mark: Bookmark, words: str) -> LogPlace:
        stands = await self.marks.stands(mark)
        self._show_bookmarks()
        if not stands:
            raise ValueError(f"{words}: {self.marks.why(mark)}")
        return LogPlace(mark.offset, self._view.term, words)

    def _show_bookmarks(self) -> None:
        self._view.flag({mark.offset: mark for mark in self.marks.there})

    def go_to(self, typed: str, now: float) -> str | None:
        """Go to a step, a time, a line or a share; return what is wrong with what was typed."""
        report, reader, target = self._report, self.reader, target_of(typed, now)
        if target is None:
            return f"not a place in a log: {typed!r}; type {HOW}"
        if report is None or reader is None:
            return NO_FILE
        if isinstance(target, Share):
            log = report.facets.log.value
            size = 0 if log is None else log.size
            self._view.hold()
            self._go(reader.floor + int((size - reader.floor) * target.part))
            return None
        seeker = Seeker(self._logs, report, partial(self._newest, reader), begin=reader.floor)
        self._view.say("looking (esc stops)")
        lacks = f"no line of this log has a {target.kind}"
        lacks = f"there is no line {int(target.value):,}" if target.kind == "line" else lacks
        self._go_soon(partial(seeker.first, (target,)), lacks)
        return None

    def search(self, term: str) -> None:
        """Search: from the end upwards while following, else from the cursor down.

        ``/…/`` is a regular expression.
        """
        term = term_of(term)
        self._view.mark(term)
        self._counting.forget()
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
        words = "the line that tells the cause"
        targets: Sequence[Target] = triage_targets(report)
        if alert is None and report.alerts:  # after the one that was gone to last, the worst first
            keys = [each.key for each in report.alerts]
            at = keys.index(self._jumped) + 1 if self._jumped in keys else 0
            alert = report.alerts[at % len(keys)]
        if alert is not None:
            targets, self._jumped = targets_of(report, alert), alert.key
            place = next((n for n, one in enumerate(report.alerts, 1) if one is alert), None)
            words = "the alert" if place is None else f"alert {place} of {len(report.alerts)}"
        if not targets:
            return "no alert on this run has log evidence"
        self._view.hold()
        reader = self.reader
        if reader is None:
            self._view.say(NO_FILE)
            return None
        newest = partial(self._newest, replace(reader, floor=0))
        seeker = Seeker(reader.logs, report, newest)

        async def first() -> LogPlace | None:
            found = await seeker.first(targets)
            return None if found is None else found._replace(words=f"{words}: {found.words}")

        self._view.say(f"{words}: looking for its evidence (esc stops)")
        self._go_soon(first, f"{words}: no evidence of it in this log")
        return None

    def _newest(self, reader: LogReader, term: str) -> Awaitable[Hit | None]:
        return reader.find(term, 1 << 62, True, self._on_progress)

    def _on_progress(self, reached: int) -> None:
        self._view.say(f"searching, at {reached / 1e6:,.0f} MB (esc stops)")

    def _tail(self) -> None:
        """Show the end: as the source has read it, from the file only if that was long ago."""
        report, reader = self._report, self.reader
        log = None if report is None else report.facets.log.value
        if reader is not None and reader.sifts and self._begun == self.file:  # what is new
            more = partial(reader.more, self._view.end, False)
            self._start(partial(self._read, more, self._view.show_more))
        elif reader is not None and reader.sifts:
            self._begun, self._empty = self.file, 0
            self._start(partial(self._read, partial(reader.tail, TAIL_LINES), self._show_tail))
        elif reader is not None and (log is None or not log.offsets):
            read = partial(reader.tail, max(TAIL_LINES, self._view.room))
            self._start(partial(self._read, read, self._show_tail))
        elif report is not None:
            if reader is not None:
                self._view.say("")
            placed = log is None or bool(log.offsets)
            page = since(held_lines(report), self._view.floor) if placed else held_lines(report)
            self._view.show_tail(page, placed=placed)

    def _show_tail(self, page: LogPage) -> None:
        if self._view.following or not self._view.placed:
            self._view.say("")
            self._view.show_tail(page)

    def _go(self, offset: int) -> None:
        reader = self.reader
        if reader is not None:
            around = partial(reader.around, offset)
            self._start(partial(self._read, around, partial(self._view.show_at, offset=offset)))

    def _find(self, term: str, offset: int, back: bool) -> None:
        reader = self.reader
        if reader is None:
            self._view.say(NO_FILE)
            return

        async def next_one() -> LogPlace | None:
            hit = await reader.find(term, offset, back, self._on_progress)
            self._counting.begin(reader, anew=False)  # not before: it may take too long
            return None if hit is None else LogPlace(hit.offset, term, "")

        self._go_soon(next_one, "no match above" if back else "no match below")

    def _go_soon(self, look: Callable[[], Awaitable[LogPlace | None]], lacks: str) -> None:
        self._looking = self._start(partial(self._go_to, look, lacks))

    async def _read(self, read: Callable[[], Awaitable[T]], show: Callable[[T], None]) -> None:
        """Show what is read, or why it cannot be."""
        try:
            show(await read())
        except (OSError, TimeoutError) as error:
            self._view.say(_trouble(error))

    async def _go_to(self, look: Callable[[], Awaitable[LogPlace | None]], lacks: str) -> None:
        """Go to what is found, and say what it is; a filter that hides it is taken off."""
        try:
            found = await look()
            page, shown = (None, "") if found is None else await self._around(found.offset)
        except (OSError, TimeoutError, ValueError) as error:
            self._view.say(_trouble(error))
            return
        if found is None or page is None:
            self._view.say(lacks)
            return
        if found.mark != self._view.term:
            self._view.mark(found.mark)
        self._view.show_at(page, found.offset)
        self._view.say(" · ".join(each for each in (found.words, shown) if each))

    async def _around(self, offset: int) -> tuple[LogPage | None, str]:
        """Return the lines around a place, and what had to be shown again for it."""
        said: list[str] = []
        if offset < self._view.floor:
            self._view.floor = 0
            said.append("before this job: all jobs are shown")
        reader = self.reader
        page = None if reader is None else await reader.around(offset)
        if reader is not None and page is not None and reader.sifts and offset not in page.offsets:
            self._view.sifted = False
            said.append("all levels are shown: the filter hides this line")
            page = await replace(reader, sifts=False).around(offset)
        return page, " · ".join(said)


def _trouble(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "the file did not answer in time" if isinstance(error, TimeoutError) else str(error)
