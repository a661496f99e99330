"""How long something was waited for, without the time in which this process was stopped.

Ctrl-Z, a debugger or a frozen container stop a process for minutes: whoever counts those as
waiting gives up, as it goes on, what has long been answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

LAP: Final = 2.0
"""Seconds between two looks at most, unless this process was stopped between them."""


class Awake:
    """A deadline of ``seconds``; one that waits asks at least every ``lap`` seconds.

    What has passed between two questions beyond ``lap`` is not counted.
    """

    def __init__(
        self, seconds: float, lap: float = LAP, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._left = seconds
        self._lap = lap
        self._now = now
        self._at = now()

    def left(self) -> float:
        """Return the seconds that are left; 0 or less once time is up."""
        now = self._now()
        self._left -= min(now - self._at, self._lap)
        self._at = now
        return self._left


class Limit:
    """Ends the wait for an outcome (cancels ``future``) once time is up; ``over`` tells that.

    Who waits awaits the outcome itself: ``asyncio.wait`` takes a turn of the loop more for each.
    """

    def __init__(
        self, future: asyncio.Future[Any], until: Awake, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.over = False
        self._future = future
        self._until = until
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def _look(self) -> None:
        left = self._until.left()
        if left > 0:
            self._timer = self._loop.call_later(min(left, LAP), self._look)
        elif not self._future.done():
            self.over = True
            self._future.cancel()

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
