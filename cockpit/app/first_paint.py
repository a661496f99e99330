"""When the screen is painted first, and how reports of the engine are gathered into one repaint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cockpit.config.quickstart import collect_again
from cockpit.model.report import ROWS_UNREAD, RunReport, Verdict
from widgets.painted import Painted

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.timer import Timer

    from cockpit.app.terminal import TerminalApp


PAINT_WITHIN: Final = 0.5
"""Seconds after which it is shown whatever is known."""
STANDS: Final = 5.0
"""Seconds for which a kept frame stands that says more than the live one would: nothing is read."""


class FirstPaint:
    """Holds an app's paint, and what is pressed, back until there is something to see.

    ``shown`` is set from then on. What stood on the terminal before stands until then, whole.
    """

    def __init__(self, app: TerminalApp, shown: asyncio.Event) -> None:
        self._app = app
        self._shown = shown
        self._task: asyncio.Task[None] | None = None
        shown.clear()

    def wait(self, known: asyncio.Event | None, show: Callable[[], None]) -> None:
        """Begin to wait for what is remembered (``known``); then ``show`` it."""
        self._task = asyncio.create_task(self._wait(known, show))

    async def _wait(self, known: asyncio.Event | None, show: Callable[[], None]) -> None:
        try:
            in_time = await self._in_time(known)
            if in_time:
                show()
            await self._stand(show)
            if in_time:
                self._repaint()
        finally:
            self._shown.set()
            try:
                self._app.catch_up()
            finally:  # a widget may fail in its first paint
                collect_again()

    async def _in_time(self, known: asyncio.Event | None) -> bool:
        """Wait until all is laid out and ``known``; return whether that was in time.

        A layout that comes later is painted, not only noted: what waits for it (the start of an
        engine) goes on now, or would for ever.
        """
        try:
            async with asyncio.timeout(PAINT_WITHIN):
                await self._app.laid_out.wait()
                await (self._app.laid_out if known is None else known).wait()
        except TimeoutError:
            return False
        finally:
            self._app.laid_out.set()
        return True

    async def _stand(self, show: Callable[[], None]) -> None:
        """Let a kept frame stand, which says of when it is, until the runs are read.

        What is pressed, another size, a stop of this process and a critical run end it.
        """
        if self._app.cells is None or not self._app.cells.kept:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STANDS):
                await self._app.live_wanted.wait()
        show()
        laid_out = asyncio.Event()
        self._app.screen.call_after_refresh(laid_out.set)
        with suppress(TimeoutError):  # else what was laid out before is painted first
            async with asyncio.timeout(PAINT_WITHIN):
                await laid_out.wait()

    def _repaint(self) -> None:
        """Have all lines painted that were laid out before there was anything to say."""
        if self._app.screen_stack:
            screen = self._app.screen
            with self._app.faults_of(screen):
                for each in screen.query(Painted):
                    each.repaint()


GATHER_FOR: Final = 0.25
"""Seconds in which news is gathered before it is painted."""
READING: Final = 2.0
"""The same while runs are read for the first time: each of them comes in parts, and moves."""
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
            self._timer = self._app.set_timer(READING if self._unread else GATHER_FOR, self._show)

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
