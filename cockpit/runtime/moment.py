"""Deadlines and durations that survive a clock that is set and a machine that was suspended."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cockpit.model.clock import Clock, Moment
from cockpit.model.wording import duration, utc_minute

if TYPE_CHECKING:
    import asyncio


BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def moment(clock: Clock) -> Moment:
    """Return what ``clock`` shows now; comparable with other processes of this machine."""
    return Moment(clock.now(), clock.monotonic(), this_boot())


@functools.cache
def this_boot() -> str | None:
    """Return what tells this boot of the machine from every other, where the kernel says."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


LAP: Final = 2.0
"""Seconds between two looks at most, unless this process was stopped between them."""


class Awake:
    """A deadline of ``seconds``; one that waits asks at least every ``lap`` seconds.

    What has passed between two questions beyond ``lap`` is not counted: this process was suspended.
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
        self._check_time()

    def _check_time(self) -> None:
        left = self._until.left()
        if left > 0:
            self._timer = self._loop.call_later(min(left, LAP), self._check_time)
        elif not self._future.done():
            self.over = True
            self._future.cancel()

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()


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
    """Holds a wall clock against the one that nobody can set; to be asked every few seconds.

    Without it a clock that was set back by an hour keeps the reminder of a critical alert back for
    as long (``tests/notify/test_held_store.py``).
    """

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
