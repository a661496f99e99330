"""The clock that is passed in everywhere, so that nothing reads the time on its own."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

FILE_SKEW: Final = 2.0
"""Seconds by which the clock of a file system and that of a job's start may differ."""


class Clock(Protocol):
    """Wall time for facts, monotonic time for deadlines, and a way to wait."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        await asyncio.sleep(seconds)


class FixedClock(SystemClock):
    """The machine's clock with wall time standing still: judging as if it were another time."""

    def __init__(self, instant: float) -> None:
        self._instant = instant

    def now(self) -> float:
        """Return the fixed instant."""
        return self._instant
