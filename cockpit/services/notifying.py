"""What a watch tells the outside: messages to people, and a sign of life to the dead man's switch.

Neither can delay or end the watch: both run beside it, under its supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.run import CockpitFile
from cockpit.notify.heartbeat import Heartbeat
from cockpit.notify.notifier import Notifications
from cockpit.watch.engine import Engine
from cockpit.watch.polling.supervise import Supervisor

EVERY: Final = 2.0
"""Seconds between two looks at what is due."""
LOOK_WITHIN: Final = 120.0
LAST_WITHIN: Final = 45.0
"""Seconds that the last messages of a watch that is done may take."""
LEAVE_WITHIN: Final = 3.0
"""Seconds for which an interrupted watch waits for a message that is being sent."""


class Notifying:
    """Runs ``notifications`` on the news of an engine, and pings once per cadence.

    The UI gives no ``heartbeat``: the switch tells that a headless watch lives.
    """

    def __init__(
        self,
        engine: Engine,
        notifications: Notifications,
        clock: Clock,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._engine = engine
        self._notifications = notifications
        self._heartbeat = heartbeat
        self._clock = clock
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._ping: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._leave: list[Callable[[], None]] = []
        self._troubles: dict[str, str] = {}
        self._looking = False
        self._ending = False

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about how they are told."""
        return (*self._notifications.notices, *self._troubles.values(), *self._supervisor.faults)

    def start(self) -> None:
        """Begin to listen and to tell; needs a running event loop."""
        self._leave = [
            self._engine.subscribe(self._notifications.hear),
            self._engine.on_reload(self._adopt),
        ]
        self._say("heartbeat", self._heartbeat.trouble() if self._heartbeat else None)
        self._task = asyncio.ensure_future(self._run())

    def pulse(self, cadence: float) -> None:
        """Say that a round has gone by: the switch is pinged, unless a ping is under way."""
        heartbeat, idle = self._heartbeat, self._ping is None or self._ping.done()
        if heartbeat is not None and heartbeat.wanted and idle:
            self._ping = asyncio.ensure_future(self._beat(heartbeat, cadence))

    def stop(self) -> None:
        """Stop listening, and tell no more than what is being told at this moment."""
        for leave in self._leave:
            leave()
        self._leave = []
        self._ending = True
        if self._task is not None and not self._looking:
            self._task.cancel()

    async def finish(self, seconds: float = LEAVE_WITHIN) -> None:
        """Wait for what is under way, so that no claimed message is left half sent."""
        under_way = {task for task in (self._task, self._ping) if task is not None}
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)

    async def last_words(self) -> None:
        """Tell what is still due, after the engine has written its last state down."""
        await self.finish(LAST_WITHIN)
        await self._supervised("the notifications", LAST_WITHIN, self._notifications.look())

    async def _run(self) -> None:
        while not self._ending:
            self._looking = True
            await self._supervised("the notifications", LOOK_WITHIN, self._notifications.look())
            self._looking = False
            if not self._ending:
                await self._clock.sleep(EVERY)

    async def _beat(self, heartbeat: Heartbeat, cadence: float) -> None:
        found = await self._supervisor.run(
            "the dead man's switch", LAST_WITHIN, heartbeat.beat(cadence)
        )
        self._say("heartbeat", found.message if isinstance(found, Problem) else found)

    async def _supervised(self, what: str, seconds: float, work: Coroutine[Any, Any, None]) -> None:
        found = await self._supervisor.run(what, seconds, work)
        self._say(what, found.message if isinstance(found, Problem) else None)

    def _adopt(self, file: CockpitFile) -> None:
        self._notifications.adopt(file)
        if self._heartbeat is not None:
            self._heartbeat = Heartbeat(file.notify, self._clock)
            self._say("heartbeat", self._heartbeat.trouble())

    def _say(self, about: str, line: str | None) -> None:
        self._troubles.pop(about, None)
        if line is not None:
            self._troubles[about] = line
