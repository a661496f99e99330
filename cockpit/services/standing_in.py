"""Tells people in the place of a watch that hangs: says so here, and leaves word for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from functools import partial
from typing import Final

from cockpit.model.clock import Clock, next_beat
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.services.service import Service
from cockpit.store.store import StoreError
from cockpit.watch.engine import Engine

EVERY: Final = 2.0
STORE_WITHIN: Final = 10.0
SAID_FOR: Final = 86400.0
"""Seconds since its last beat for which a hung watch is named: what hangs for days is known."""


class StandingIn(Service):
    """Looks which owners the engine has found hung; ``operator`` sits at this cockpit."""

    def __init__(self, engine: Engine, operator: str, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._who = f"{operator} (cockpit on {socket.gethostname()}, pid {os.getpid()})"
        self._task: asyncio.Task[None] | None = None
        self._left_word: set[tuple[str, float]] = set()

    @property
    def notices(self) -> tuple[str, ...]:
        """Which watch hangs, since when, and that people are told all the same."""
        now = self._clock.now()
        lately = (each for each in self._engine.hung if now - each.since < SAID_FOR)
        return tuple(f"{each.line}: this cockpit tells people now" for each in lately)

    def start(self) -> None:
        """Begin to look; needs a running event loop."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self, within: float) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    async def _run(self) -> None:
        while True:
            await self._leave_word()
            await next_beat(self._clock, EVERY)

    async def _leave_word(self) -> None:
        """Write down, once for each time that it hangs, who tells people in its place."""
        own = self._engine.ownership
        for hung in self._engine.hung if own is not None else ():
            known = (hung.owner.process, hung.since)
            if own is None or known in self._left_word:
                continue
            work = partial(own.stand_in, hung, self._who, moment(self._clock))
            with contextlib.suppress(StoreError, TimeoutError):
                await offload(work, deadline=STORE_WITHIN)
                self._left_word.add(known)
