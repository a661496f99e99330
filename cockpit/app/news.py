"""What the engine tells, gathered: it is shown together, not each report in a frame of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from cockpit.model.report import ROWS_UNREAD, RunReport, Verdict

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.timer import Timer

WITHIN: Final = 0.25
"""Seconds in which news is gathered before it is painted."""
READING: Final = 2.0
"""The same while runs are read for the first time: each of them is told in parts, and moves."""
BEGINS: Final = 60.0
"""Seconds after the start from which on nobody waits for runs that could not be read yet."""


class News:
    """Gathers reports and has them shown; ``read``: nothing more is worth waiting for."""

    def __init__(
        self, app: MessagePump, show: Callable[[], None], read: Callable[[], object]
    ) -> None:
        self._app, self._show, self._read = app, show, read
        self._coming: dict[str, RunReport] = {}
        self._unread: set[str] = set()
        self._waits = True
        self._timer: Timer | None = None

    def begin(self, reports: Iterable[RunReport]) -> None:
        """Begin with what is known."""
        self._note(reports)
        self._app.set_timer(BEGINS, self._wait_no_more)

    def _wait_no_more(self) -> None:
        self._waits = False
        self._unread.clear()
        self._read()

    def take(self, report: RunReport) -> None:
        """Take a report: it is shown soon."""
        self._coming[report.name] = report
        waited = bool(self._unread)
        self._note([report])
        if self._timer is not None and waited and not self._unread:
            self._timer.stop()
            self._timer = None
        if self._timer is None:
            self._timer = self._app.set_timer(READING if self._unread else WITHIN, self._show)

    def taken(self, reports: Iterable[RunReport] = ()) -> dict[str, RunReport]:
        """Return what came since the last call; ``reports``: all is known in their newest form."""
        self._note(reports)
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        found, self._coming = self._coming, {}
        return found

    def _note(self, reports: Iterable[RunReport]) -> None:
        """Note who has been read; the last of them ends the wait, and one that is critical.

        That is judged before the rows are read, which takes long for a tracker that is far behind.
        """
        read = False
        for each in reports:
            critical = each.verdict is Verdict.CRITICAL
            if each.not_read_yet is not None:
                if self._waits:
                    self._unread.add(each.name)
                read = read or (critical and each.not_read_yet == ROWS_UNREAD)
                continue
            self._unread.discard(each.name)
            read = read or critical or not self._unread
        if read:
            self._read()
