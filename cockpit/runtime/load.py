"""Whether the threads beside an event loop compute, or wait for something else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

COMPUTING: Final = 0.002
"""Processor time (s) of all threads between two looks from which on they are held to compute."""
LATE: Final = 0.004
"""So is one whose event loop is late by as much (s): the interpreter's turns take 5 ms."""
Loop = asyncio.AbstractEventLoop


def _time_of(clock: int) -> float:
    """Return the processor time of a thread; one that has just left has none."""
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


class Load:
    """Whether the threads compute, or wait for a processor: seen from an event loop."""

    def __init__(self) -> None:
        self._due = self._spent = 0.0
        self.timer: asyncio.TimerHandle | None = None
        """The next look."""
        self.calling = False
        """Whether a thread is about to be called."""

    def look(self, loop: Loop, clocks: Iterable[int]) -> bool:
        """Return that, at the time that was set: a loop that has to wait comes too late.

        ``clocks`` tell the processor time of the threads: one that hangs spends none.
        """
        spent = sum(map(_time_of, tuple(clocks)))
        busy = loop.time() - self._due >= LATE or spent - self._spent >= COMPUTING
        self._spent = spent
        return busy

    def look_after(self, seconds: float, loop: Loop, look: Callable[[Loop], None]) -> None:
        """Set the time of the next look."""
        self._due = loop.time() + seconds
        self.timer = loop.call_later(seconds, look, loop)
