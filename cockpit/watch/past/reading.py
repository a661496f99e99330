"""Answers what the past of an engine's runs was; each answer is read from the store anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.past import PastLog, Then, Timeline
from cockpit.runtime.offload import offload
from cockpit.store.store import Store, StoreError
from cockpit.watch.fleet import Fleet
from cockpit.watch.past.log import log_then
from cockpit.watch.past.then import then
from cockpit.watch.past.timeline import timeline
from cockpit.watch.runstate import RunState

DEADLINE: Final = 10.0
R = TypeVar("R")


class PastReading:
    """The past of the runs of ``fleet``, by their names.

    Every method raises ``OSError`` (the store cannot be read), ``TimeoutError`` and, for a run
    that is not there, ``ValueError``.
    """

    def __init__(self, store: Store | None, fleet: Fleet, clock: Clock) -> None:
        self._store = store
        self._fleet = fleet
        self._clock = clock

    async def timeline(self, run: str) -> Timeline:
        """Return what is known to have happened to a run, and which moments are kept."""
        state = self._state(run)
        now = self._clock.now()
        return await self._asked(
            functools.partial(timeline, self._store, state.key, state.spec, state.report, now)
        )

    async def then(self, run: str, at: float) -> Then:
        """Return a run as it was at ``at`` (seconds since the epoch)."""
        state = self._state(run)
        if self._store is None:
            raise OSError(0, "no store is open: the past is unknown")
        return await self._asked(
            functools.partial(then, self._store, state.key, state.spec, float(at))
        )

    async def log_then(self, run: str, at: float, offset: int, back: bool) -> PastLog:
        """Return lines of the log as it was at ``at``: before ``offset`` (``back``), or from it on.

        Also raises ``OSError`` where the log is another text by now.
        """
        found, state = await self.then(run, at), self._state(run)
        read = functools.partial(log_then, state.spec, found, int(offset), bool(back))
        return await self._asked(read)

    def _state(self, run: str) -> RunState:
        state = self._fleet.states.get(run)
        if state is None:
            raise ValueError(f"no run {run[:80]!r} in the run file")
        return state

    async def _asked(self, read: Callable[[], R]) -> R:
        try:
            return await offload(read, deadline=DEADLINE)
        except StoreError as error:
            raise OSError(0, str(error)) from error
