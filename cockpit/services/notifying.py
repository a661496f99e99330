"""Sends a watch's messages to people; runs beside it, under its supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Problem
from cockpit.notify.notifier import Notifications
from cockpit.services.service import Service
from cockpit.watch.engine import Engine
from cockpit.watch.tasks import Supervisor

EVERY: Final = 2.0
"""Seconds between two looks at what is due."""
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
        await self._look(LAST_WITHIN)

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
            await self._look(LOOK_WITHIN)
            self._looking = False
            if not self._ending:
                await self._pause()

    async def _pause(self) -> None:
        """Wait for the next look; who stood still lets others write down what they told."""
        begun = self._clock.monotonic()
        await next_beat(self._clock, EVERY)
        if self._clock.monotonic() - begun > EVERY + STOOD_STILL:
            await self._clock.sleep(AFTER_STANDING)

    async def _look(self, within: float) -> None:
        if self._notifications.silent:  # every two seconds: no task nor timer for nothing
            self._trouble = None
            return
        work = self._notifications.look()
        found = await self._supervisor.run("the notifications", within, work)
        self._trouble = found.message if isinstance(found, Problem) else None
