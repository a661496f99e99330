"""How long ago something was, whatever the machine's clock was set to meanwhile.

What the wall clock has stamped before it was set is compared with the clock as it would be now had
nobody set it. It is known only to a process that lived through it.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.wording import duration, utc_minute

LEAST: Final = 30.0
"""Seconds by which a clock must differ: one that is only steered differs by less."""
SAID_FOR: Final = 600.0


class Jump(NamedTuple):
    """The clock was set, from ``before`` to ``after`` (epoch s), at ``steady`` (s)."""

    steady: float
    before: float
    after: float

    @property
    def ahead(self) -> float:
        """By how much it was set forward (s); negative: back."""
        return self.after - self.before


class Jumps:
    """Holds a wall clock against the one that nobody can set; to be asked every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offset = clock.now() - clock.monotonic()
        self._found: list[Jump] = []

    @property
    def notice(self) -> str | None:
        """That the clock was set, for a while after."""
        _, steady = self.look()
        lately = [each for each in self._found if steady - each.steady < SAID_FOR]
        if not lately:
            return None
        last = lately[-1]
        how = f"{duration(abs(last.ahead))} {'ahead' if last.ahead > 0 else 'back'}"
        return (
            f"this machine's clock jumped {how} (it says {utc_minute(last.after)}): "
            "waits are not affected"
        )

    def look(self) -> tuple[float, float]:
        """Return (wall, steady) as they are now, with any jump noted."""
        with self._lock:
            wall, steady = self._clock.now(), self._clock.monotonic()
            if abs(wall - steady - self._offset) >= LEAST:
                self._found.append(Jump(steady, steady + self._offset, wall))
            self._offset = wall - steady
        return wall, steady

    def since(self, then: float) -> float:
        """Return the seconds that have passed since the wall clock showed ``then``."""
        wall, steady = self.look()
        passed = wall - then
        for jump in reversed(self._found):
            after = steady - jump.steady
            if 0 <= passed <= after or then > max(jump.before, wall):
                break  # stamped since then, or still to come
            if jump.before < then <= jump.after:
                return after  # no clock has ever shown it: as long ago as the jump
            passed -= jump.ahead
        return passed
