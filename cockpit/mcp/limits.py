"""How many calls an agent may make: so many a minute, then it is told when the next one may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.run import CockpitFile

MINUTE: Final = 60.0


class RateLimit:
    """Counts the calls of the last minute against ``[agents] calls_per_minute``."""

    def __init__(self, file: Callable[[], CockpitFile], clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._calls: deque[float] = deque()

    def take(self) -> float:
        """Count a call; return 0, or the seconds until one may be made: then it is not counted."""
        now, most = self._clock.monotonic(), self._file().agents.calls_per_minute
        while self._calls and self._calls[0] <= now - MINUTE:
            self._calls.popleft()
        if len(self._calls) >= most:
            return self._calls[len(self._calls) - most] + MINUTE - now
        self._calls.append(now)
        return 0.0
