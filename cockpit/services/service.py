"""What runs beside the watch loop: the shape of a service, and what starts the services."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from cockpit.config.file import state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Problem
from cockpit.model.report import RunReport
from cockpit.model.wording import duration
from cockpit.runtime.offload import offload
from cockpit.watch.sweep import Supervisor

if TYPE_CHECKING:
    from cockpit.watch.engine import Engine

EVERY: Final = 2.0
"""Seconds between two looks at what is due."""
STORE_WITHIN: Final = 10.0
"""Seconds in which the store answers, or a service tries again later."""


class Service(ABC):
    """Begun once and stopped once, on the event loop. It can neither delay nor end the watch."""

    @property
    @abstractmethod
    def notices(self) -> tuple[str, ...]:
        """What a person should know about it, one line each."""

    @abstractmethod
    def start(self) -> None:
        """Begin; needs a running event loop."""

    async def finish(self) -> None:
        """Do what is still due, once a watch is done; ends by itself. Most have nothing due."""
        return

    @abstractmethod
    async def stop(self, within: float) -> None:
        """Begin nothing more; what is under way has ``within`` seconds to end."""


class BackgroundServices(Service):
    """Several services, begun in order and stopped together."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = tuple(services)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about any of them, one line each."""
        return tuple(notice for service in self._services for notice in service.notices)

    def start(self) -> None:
        """Begin all, in order."""
        for service in self._services:
            service.start()

    async def finish(self) -> None:
        """Let all do what is still due."""
        await asyncio.gather(*(service.finish() for service in self._services))

    async def stop(self, within: float) -> None:
        """Stop all; they share the ``within`` seconds."""
        await asyncio.gather(*(service.stop(within) for service in self._services))


class ReportService(Service):
    """Looks every ``EVERY`` seconds at the reports that came since the last look.

    ``mine`` says for which runs this cockpit acts. The work runs under the supervisor: a fault
    becomes a notice, a hang ends at its deadline.
    """

    def __init__(self, engine: Engine, clock: Clock, mine: Callable[[RunReport], bool]) -> None:
        self._engine = engine
        self._clock = clock
        self._mine = mine
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._heard: dict[str, RunReport] = {}
        self._leave: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with it, one line each."""
        return self._supervisor.faults

    def start(self) -> None:
        """Begin to listen; needs a running event loop."""
        self._leave = [self._engine.subscribe(self._hear), self._engine.on_round(self._hear)]
        self._task = asyncio.ensure_future(self._run())

    async def stop(self, within: float) -> None:
        """Stop; what is under way has ``within`` seconds to end."""
        for leave in self._leave:
            leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    @abstractmethod
    async def look(self) -> None:
        """Do what is due now."""

    def _hear(self, report: RunReport) -> None:
        self._heard[report.name] = report

    def _reports(self) -> Collection[RunReport]:
        """Return the last report of each run that came since this was last called."""
        heard, self._heard = self._heard, {}
        return heard.values()

    async def _run(self) -> None:
        while True:
            await next_beat(self._clock, EVERY)
            await self.look()


AT_ONCE: Final = 5.0
"""Seconds in which services may start without a word."""
MAKE_WITHIN: Final = 60.0
BACK_OFF: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before each further attempt; the last one for all that follow."""
SAID_FOR: Final = 30.0
LAST_WITHIN: Final = 60.0
"""Seconds for which a watch that is done waits for services that have not begun."""


class Starting(Service):
    """Stands for the services that ``make`` returns; ``make`` may block and raise.

    ``MAKE_WITHIN`` bounds one attempt; the thread of one that hangs is left behind.
    """

    def __init__(self, make: Callable[[], Service], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self._service: Service | None = None
        self._begun = clock.monotonic()
        self._why = self._at_last = ""
        self._said_until = float("-inf")
        self._leaving = False
        self._task: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """That nobody is told yet, and why; once they run, what the services say."""
        if self._service is not None:
            now = (self._at_last,) if self._clock.monotonic() < self._said_until else ()
            return (*now, *self._service.notices)
        late = self._clock.monotonic() - self._begun >= AT_ONCE
        if self._task is None or not (self._why or late):
            return ()
        return (f"nobody is notified yet: starting {self._why or 'takes long on this machine'}",)

    def start(self) -> None:
        """Begin to begin; needs a running event loop."""
        self._begun = self._clock.monotonic()
        self._task = asyncio.ensure_future(self._until_running())

    async def finish(self) -> None:
        """Do what is still due, once the services run; those that never do are given up."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_WITHIN)
        if self._service is not None:
            await self._service.finish()

    async def stop(self, within: float) -> None:
        """Stop the services, or the attempts to begin them."""
        self._leaving = True
        if self._service is not None:
            await self._service.stop(within)
        elif self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=within)

    async def _until_running(self) -> None:
        attempt = 0
        while True:
            found = await self._supervisor.run("the services", MAKE_WITHIN + 1, self._attempt())
            if not isinstance(found, Problem):
                return
            wait = BACK_OFF[min(attempt, len(BACK_OFF) - 1)]
            attempt += 1
            self._why = f"failed ({found.message}) and is tried again"
            await self._clock.sleep(wait)

    async def _attempt(self) -> None:
        service = await offload(self._make, deadline=MAKE_WITHIN)
        if self._leaving:
            return
        try:
            service.start()
        except BaseException:  # what has begun of it must not go on beside the next attempt's
            with contextlib.suppress(Exception):
                await service.stop(0.0)
            raise
        self._service, now = service, self._clock.monotonic()
        if self._why or now - self._begun >= AT_ONCE:
            self._at_last = f"people are told now: starting took {duration(now - self._begun)}"
            self._said_until = now + SAID_FOR
