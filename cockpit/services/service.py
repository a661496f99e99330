"""The one shape of what runs beside the watch loop: told the engine's news, never in its way."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence


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
