"""Time that stands still until it is set: a week is as many instants as there are looks."""

from __future__ import annotations

from cockpit.model.clock import SystemClock

START = 1_750_000_000.0
"""When every generated run begins (epoch seconds): no result depends on when it was made."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


class SetClock(SystemClock):
    """A clock that is set; only what waits for real work, such as a deadline, really waits."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def now(self) -> float:
        """Return the instant that was set (epoch seconds)."""
        return self.at

    def monotonic(self) -> float:
        """Return the seconds since the beginning of all runs."""
        return self.at - START
