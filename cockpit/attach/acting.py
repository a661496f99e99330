"""What an action in a window looks at: the attached engine's look, else its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from cockpit.watch.polling.sources_bundle import real_sources

if TYPE_CHECKING:
    from cockpit.attach.client import AttachedEngine


class ActingLooks:
    """Looks through the engine that a window is attached to, and acts on this process's own."""

    def __init__(self, attached: AttachedEngine, store: Store | None, clock: Clock) -> None:
        self._attached = attached
        self._store = store
        self._clock = clock
        self._sources = real_sources(clock)

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform that acts on a run's job."""
        return self._sources.platform_of(run)

    async def look(self, run: str, within: float) -> RunReport:
        """Return a run as it is now; where no engine answers this process looks itself."""
        try:
            return await self._attached.check(run)
        except TimeoutError:
            engine = Engine(
                self._attached.file, store=self._store, clock=self._clock, sources=self._sources
            )
            return (await engine.check([run], within)).runs[0]
