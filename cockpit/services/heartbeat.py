"""Pings the dead man's switch once per round, by one of the watches of a run file (SPEC S-13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.run import CockpitFile
from cockpit.notify.heartbeat import EARLY, Heartbeat
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.services.service import Service
from cockpit.store.ownership import NotOursError, Turns
from cockpit.store.store import StoreError, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.tasks import Supervisor

PING_WITHIN: Final = 45.0
STORE_WITHIN: Final = 10.0
PING: Final = "heartbeat"


class HeartbeatService(Service):
    """Tells the switch that a headless watch lives; the UI has none."""

    def __init__(self, engine: Engine, clock: Clock, turns: Turns | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._turns = turns
        self._heartbeat = Heartbeat(engine.file.notify, clock)
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._ping: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] | None = None
        self._trouble: str | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why the switch cannot be reached, and what went wrong here."""
        trouble = () if self._trouble is None else (self._trouble,)
        return (*trouble, *self._supervisor.faults)

    def start(self) -> None:
        """Follow the run file; the pings come with ``pulse``."""
        self._leave = self._engine.on_reload(self._adopt)
        self._trouble = self._heartbeat.trouble()

    def pulse(self, cadence: float) -> None:
        """Say that a round has gone by: the switch is pinged, unless a ping is under way."""
        idle = self._ping is None or self._ping.done()
        if self._heartbeat.wanted and idle:
            self._ping = asyncio.ensure_future(self._beat(self._heartbeat, cadence))

    async def finish(self) -> None:
        """Wait for the last ping."""
        await self._wait(PING_WITHIN)

    async def stop(self, within: float) -> None:
        """Ping no more; one that is under way has ``within`` seconds to end."""
        if self._leave is not None:
            self._leave()
        await self._wait(within)

    async def _wait(self, seconds: float) -> None:
        if self._ping is not None:
            await asyncio.wait({self._ping}, timeout=seconds)

    async def _beat(self, heartbeat: Heartbeat, cadence: float) -> None:
        if not await self._our_turn(cadence):
            return
        work = heartbeat.beat(cadence)
        found = await self._supervisor.run("the dead man's switch", PING_WITHIN, work)
        self._trouble = found.message if isinstance(found, Problem) else found

    async def _our_turn(self, cadence: float) -> bool:
        """Return whether no other watch of this run file has pinged in this period."""
        turns, key = self._turns, run_key(self._engine.file.path, "")
        if turns is None:
            return True

        def taken() -> bool:
            turn = turns.take(key, PING, EARLY * cadence, moment(self._clock))
            if turn is not None:
                turns.begin(turn)
            return turn is not None

        try:
            return await offload(taken, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError, NotOursError):
            return True  # rather twice than never

    def _adopt(self, file: CockpitFile) -> None:
        self._heartbeat = Heartbeat(file.notify, self._clock)
        self._trouble = self._heartbeat.trouble()
