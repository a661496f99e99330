"""Read a log in pages, all lines or some, and a logbook, for their tabs."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.base import SafeText
from cockpit.model.logtext import Hit, LogPage
from cockpit.model.report import RunReport
from cockpit.records.logbook.reading import Logbook, book_then, read_logbook
from cockpit.runtime.offload import offload
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub_line
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


MOST: Final = 256_000
"""Bytes; of a longer logbook the end with the newest entries is shown."""
DEADLINE: Final = 10.0


class LogbookText(NamedTuple):
    """A logbook's safe lines, what is to be said of it, and whether its newest entry is last.

    ``stamp`` changes whenever the file does.
    """

    lines: tuple[SafeText, ...]
    note: str
    newest_last: bool
    stamp: tuple[int, ...] = ()


async def read_book(path: str, former: LogbookText | None = None) -> LogbookText:
    """Return a logbook, ``former`` if it still stands so; a note says why it cannot be read."""
    try:
        return await offload(_read, path, former, deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "the file did not answer in time", False)


async def read_book_then(path: str, at: float) -> LogbookText:
    """Return a logbook as it stood at a moment; the note says how that is known, or why not."""
    found = await book_then(path, at)
    raw = found.text.encode("utf-8", "replace")
    if not raw:
        return LogbookText((), found.told, False)
    try:
        shown = await offload(_text_of, raw, deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "unknown: the logbook is too large", False)
    return shown._replace(note=f"{found.told} · {shown.note}")


def _text_of(raw: bytes) -> LogbookText:
    """Return a logbook of which all bytes are known, as it is shown."""
    size, whole = len(raw), raw.decode("utf-8", "replace")
    book = read_logbook(whole[:MOST])
    newest_last = book.newest_first is not True
    if size > MOST:
        raw = raw[-MOST:].partition(b"\n")[2] if newest_last else raw[:MOST]
        book = read_logbook(raw.decode("utf-8", "replace"))
    return _shown(raw, book, newest_last, size)


def _shown(
    raw: bytes, book: Logbook, newest_last: bool, size: int, stamp: tuple[int, ...] = ()
) -> LogbookText:
    lines = tuple(scrub_line(line) for line in safe_lines(raw))
    count = len(book.entries)
    note = f"{count} entr{'y' if count == 1 else 'ies'}"
    if size > MOST:
        note += f" · only the {'end' if newest_last else 'beginning'} is shown"
    return LogbookText(lines, note, newest_last, stamp)


def _read(path: str, former: LogbookText | None) -> LogbookText:
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if former is not None and former.stamp == stamp:
                return former
            raw = file.read(MOST)
            book = read_logbook(raw.decode("utf-8", "replace"))
            if status.st_size > MOST and book.newest_first is not True:
                file.seek(status.st_size - MOST)
                raw = file.read(MOST).partition(b"\n")[2]
                book = read_logbook(raw.decode("utf-8", "replace"))
    except OSError as error:
        return LogbookText((), (error.strerror or "cannot be read").lower(), False)
    return _shown(raw, book, book.newest_first is not True, status.st_size, stamp)
