"""Asks a platform what became of a launch id: with a deadline of our own, at an easing pace.

A platform promises not to raise and not to hang; what breaks that promise is unknown here, with
the reason, and never an end or a second submit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.jobs import Found, LookUp
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.runtime.moment import Awake
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

ANSWER_WITHIN: Final = 60.0
"""Seconds in which a look-up must end by itself: past them it is given up for unknown."""
LAP: Final = 15.0
"""Seconds that a look takes as a rule; what it takes beyond them this process may have stood."""
EASES: Final = 1.25
"""How much longer each wait is than the one before: many looks at first, few later."""
SLOWEST: Final = 10.0
"""Seconds between two looks at most, unless the platform wants more."""


async def look_up(
    platform: Platform,
    run: RunSpec,
    launch_id: str,
    handle: Mapping[str, str] | None = None,
    *,
    settle: bool = True,
) -> LookUp:
    """Return what became of a launch id; never raises, and ends within ``ANSWER_WITHIN``.

    ``handle`` and ``settle`` are those of ``Platform.recall``; without a handle, which only the
    journal that began the launch has, it is looked up by its id alone.
    """
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            if handle is None:
                return await platform.look_up(run, launch_id)
            return await platform.recall(run, launch_id, handle, settle=settle)
    except TimeoutError:
        why = f"no answer within {ANSWER_WITHIN:g} s"
    except Exception as error:  # noqa: BLE001 - whatever went wrong, nothing was learned
        why = f"{type(error).__name__}: {scrub(clean(error, 300))}"
    return LookUp(found=Found.UNKNOWN, text=f"the look-up failed: {why}")


def where_to_look(platform: Platform, run: RunSpec, launch_id: str, accepted: str | None) -> str:
    """Return who a person has to ask what became of a launch, and for which name and id."""
    try:
        name = platform.name_for(launch_id)
        where = platform.endpoint(run)
    except Exception:  # noqa: BLE001 - only words are at stake
        return "check by hand"
    place = "" if where == HERE else f" at {where}"
    known = f", accepted as {accepted}" if accepted and accepted != name else ""
    return scrub(clean(f"check by hand for {name}{place}{known}", 400))


class Pace:
    """Waits between looks: first as often as the platform likes, then less and less often."""

    def __init__(self, clock: Clock, platform: Platform) -> None:
        self._clock = clock
        self._wait = platform.look_every
        self._slowest = max(SLOWEST, platform.look_every)

    def until(self, seconds: float) -> Awake:
        """Return a deadline that does not count the time in which this process was stopped."""
        return Awake(seconds, min(LAP + self._slowest, seconds / 2), self._clock.monotonic)

    async def wait(self) -> None:
        """Wait until the next look is due."""
        await self._clock.sleep(self._wait)
        self._wait = min(self._wait * EASES, self._slowest)


async def settled(
    platform: Platform,
    run: RunSpec,
    launch_id: str,
    clock: Clock,
    handle: Mapping[str, str] | None = None,
) -> LookUp:
    """Look up until it is known, for as long as the platform's fence needs to be definite."""
    pace = Pace(clock, platform)
    until = pace.until(platform.definite_within)
    while True:
        found = await look_up(platform, run, launch_id, handle)
        if found.found is not Found.UNKNOWN or found.final or until.left() <= 0:
            return found
        await pace.wait()
