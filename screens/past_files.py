"""The log and the logbook of a run as they were at a moment, for their tabs in the past."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from textual.worker import Worker

from cockpit.model.history import Then
from screens.base import Work
from screens.logbook_reader import read_book_then
from screens.ports import Cockpit
from widgets.log_view import BEYOND, PastLog
from widgets.logbook_view import LogbookView

UNREAD: Final = "reading the log itself"
Start = Callable[[str, Work], Worker[Any]]
"""Does some work, ending the one before it of the same kind."""


class PastFiles:
    """Reads a moment's log and logbook once they are looked at; until then nothing is asked."""

    def __init__(self, cockpit: Cockpit, run: str, start: Start) -> None:
        self.log, self.book = PastLog(), LogbookView()
        self._cockpit = cockpit
        self._run = run
        self._start = start
        self._log_of: Then | None = None
        self._book_of: Then | None = None

    def show_log(self, found: Then) -> None:
        """Show the log of a moment: the lines that were kept, then the log itself."""
        if found is not self._log_of:
            self._log_of = found
            self._show_kept(found, UNREAD)
            self._start("log then", partial(self._read_log, found))

    def show_book(self, found: Then) -> None:
        """Show the logbook of a moment."""
        if found is self._book_of or found.report is None:
            return
        self._book_of, path = found, found.report.spec.records.logbook
        if path is None:
            self.book.show((), "", "not in the run file", at_end=False)
            return
        self.book.show((), path, "reading", at_end=False)
        self._start("book then", partial(self._read_book, path, found.at))

    def wanted(self, offset: int, back: bool) -> None:
        """Read lines of the log further up, or down."""
        if self._log_of is not None:
            self._start("log then", partial(self._read_more, self._log_of, offset, back))

    async def _read_log(self, found: Then) -> None:
        try:
            page, told = await self._cockpit.pasts.log_then(self._run, found.at, BEYOND, True)
        except (OSError, TimeoutError, ValueError) as error:
            self._show_kept(found, _trouble(error))
            return
        if page.lines:
            self.log.show_then(page, told)
        else:
            self._show_kept(found, "the log had no line by then")

    async def _read_more(self, found: Then, offset: int, back: bool) -> None:
        try:
            page, _ = await self._cockpit.pasts.log_then(self._run, found.at, offset, back)
        except (OSError, TimeoutError, ValueError) as error:
            self._show_kept(found, _trouble(error))
        else:
            self.log.extend(page, back)

    async def _read_book(self, path: str, at: float) -> None:
        book = await read_book_then(path, at)
        self.book.show(book.lines, path, book.note, at_end=book.newest_last)

    def _show_kept(self, found: Then, why: str) -> None:
        log = None if found.report is None else found.report.facets.log
        lines = () if log is None or log.value is None else log.value.lines
        kept = f"the last {len(lines)} lines then, as kept; " if lines else ""
        self.log.show_kept(lines, f"{kept}{why}")


def _trouble(error: Exception) -> str:
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return said or "the log did not answer in time"
