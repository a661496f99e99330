"""Notifications beside a watch: messages, the heartbeat, a stand-in for a hung watch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Problem
from cockpit.model.run import CockpitFile
from cockpit.notify.notifier import Notifications
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.services.periodic import EARLY, Heartbeat
from cockpit.services.service import EVERY, STORE_WITHIN, Service
from cockpit.store.ownership import NotOursError, Turns
from cockpit.store.store import StoreError, run_key
from cockpit.watch.engine import Engine
from cockpit.watch.tasks import Supervisor

STOOD_STILL: Final = 4.0
"""Seconds by which a pause must be too long for this process to have stood still."""
AFTER_STANDING: Final = 5.0
LOOK_WITHIN: Final = 120.0
LAST_WITHIN: Final = 45.0
"""Seconds that the last messages of a watch that is done may take."""


class Notifying(Service):
    """Looks every few seconds at what ``notifications`` are due, and has them sent."""

    def __init__(self, engine: Engine, notifications: Notifications, clock: Clock) -> None:
        self._engine = engine
        self._notifications = notifications
        self._clock = clock
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._task: asyncio.Task[None] | None = None
        self._leave: list[Callable[[], None]] = []
        self._trouble: str | None = None
        self._looking = False
        self._ending = False

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about how they are told."""
        trouble = () if self._trouble is None else (self._trouble,)
        return (*self._notifications.notices, *trouble, *self._supervisor.faults)

    def start(self) -> None:
        """Begin to listen and to tell; needs a running event loop."""
        self._leave = [
            self._engine.subscribe(self._notifications.hear),
            self._engine.on_reload(self._notifications.adopt),
        ]
        for report in self._engine.report().runs:  # seen before this began to listen
            self._notifications.hear(report)
        self._task = asyncio.ensure_future(self._run())

    async def finish(self) -> None:
        """Tell what is still due, after the engine has written its last state down."""
        await self.stop(LAST_WITHIN)
        await self._send_due(LAST_WITHIN)

    async def stop(self, within: float) -> None:
        """Stop listening; a message that is being sent has ``within`` seconds to go out."""
        for leave in self._leave:
            leave()
        self._leave = []
        self._ending = True
        if self._task is None:
            return
        if not self._looking:
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=within)

    async def _run(self) -> None:
        while not self._ending:
            self._looking = True
            await self._send_due(LOOK_WITHIN)
            self._looking = False
            if not self._ending:
                await self._pause()

    async def _pause(self) -> None:
        """Wait for the next look; who stood still lets others write down what they told."""
        begun = self._clock.monotonic()
        await next_beat(self._clock, EVERY)
        if self._clock.monotonic() - begun > EVERY + STOOD_STILL:
            await self._clock.sleep(AFTER_STANDING)

    async def _send_due(self, within: float) -> None:
        if self._notifications.silent:  # every two seconds: no task nor timer for nothing
            self._trouble = None
            return
        work = self._notifications.look()
        found = await self._supervisor.run("the notifications", within, work)
        self._trouble = found.message if isinstance(found, Problem) else None


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


PING_WITHIN: Final = 45.0
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
