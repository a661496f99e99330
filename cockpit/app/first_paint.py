"""The first thing that a person sees is the fleet as it is remembered, not an empty screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cockpit.config.quickstart import collect_again
from widgets.base.painted import Painted

if TYPE_CHECKING:
    from cockpit.app.terminal import TerminalApp

WITHIN: Final = 0.5
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
            async with asyncio.timeout(WITHIN):
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
            async with asyncio.timeout(WITHIN):
                await laid_out.wait()

    def _repaint(self) -> None:
        """Have all lines painted that were laid out before there was anything to say."""
        if self._app.screen_stack:
            screen = self._app.screen
            with self._app.faults_of(screen):
                for each in screen.query(Painted):
                    each.repaint()
