"""The clock that is passed in everywhere, so that nothing reads the time on its own."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final, Protocol

FILE_SKEW: Final = 2.0
"""Seconds by which the clock of a file system and that of a job's start may differ."""
SAME_CLOCK: Final = 2.0
"""Seconds by which another machine's clock may differ from ours and count as the same."""
SOONEST: Final = 0.25
"""The share of a beat that must lie before it, else the one behind it is waited for."""
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Also counts the time that a laptop sleeps, and is the same for all processes of a machine."""


class Clock(Protocol):
    """Wall time for facts, monotonic time for durations, and a way to wait."""

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
        """Return seconds that never go backwards, nor jump when the machine's clock is set."""
        return time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        await asyncio.sleep(seconds)


async def next_beat(clock: Clock, seconds: float) -> None:
    """Wait until ``clock.monotonic()`` is a multiple of ``seconds`` again.

    All loops of this machine that wait so wake at one moment: its processor is woken once for
    them together.
    """
    wait = seconds - clock.monotonic() % seconds
    await clock.sleep(wait if wait >= SOONEST * seconds else wait + seconds)


class FixedClock(SystemClock):
    """The machine's clock with wall time standing still: judging as if it were another time."""

    def __init__(self, instant: float) -> None:
        self._instant = instant

    def now(self) -> float:
        """Return the fixed instant."""
        return self._instant


def machine_time(clock: Clock) -> float:
    """Return this machine's own time, also where the clock stands still: others are measured by it.

    A host's clock is not off by what ``check --now`` has set ours.
    """
    return time.time() if isinstance(clock, FixedClock) else clock.now()


def ahead_of_ours(shown: float, sent: float, got: float) -> float:
    """Return by how many seconds a clock is ahead that was read between ``sent`` and ``got``.

    Those are ``machine_time``: only beyond them is it known to be off.
    """
    return min(0.0, shown - sent) + max(0.0, shown - got)


class OtherClock:
    """Another machine's clock: by how many seconds it is ahead of ours, 0 where that is little.

    It stays as it was found while the next answers can tell no difference: else every time of that
    machine would move with the length of the way.
    """

    def __init__(self) -> None:
        self.ahead = 0.0

    def heed(self, shown: float, sent: float, got: float) -> float:
        """Take in what it has shown between sending and getting (by ours); return ``ahead``."""
        least, most = shown - got, shown - sent
        off = ahead_of_ours(shown, sent, got)
        if least <= self.ahead <= most:
            return self.ahead
        if abs(off) <= SAME_CLOCK:
            self.ahead = 0.0
        elif not least - SAME_CLOCK <= self.ahead <= most + SAME_CLOCK:
            self.ahead = off
        return self.ahead


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant: as the wall clock shows it, and as this boot of this machine counts it (s)."""

    wall: float
    steady: float | None = None
    boot: str | None = None

    def since(self, then: Moment) -> float:
        """Return the seconds that have passed since ``then``.

        Where one boot has seen both ends, a wall clock that was set between them does not count.
        """
        same = self.boot is not None and self.boot == then.boot
        if same and self.steady is not None and then.steady is not None:
            return max(0.0, self.steady - then.steady)
        return self.wall - then.wall

    def __add__(self, seconds: float) -> Moment:
        """Return the moment so many seconds later."""
        steady = None if self.steady is None else self.steady + seconds
        return replace(self, wall=self.wall + seconds, steady=steady)
