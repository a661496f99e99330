"""What an action in a window looks at: the attached engine's look, else its own.

Imports late: a window that only shows what was done loads nothing that reads or judges.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.store.store import Store

if TYPE_CHECKING:
    from cockpit.attach.client import AttachedEngine
    from cockpit.platforms.base import Platform
    from cockpit.watch.asking import Sources


class ActingLooks:
    """Looks through the engine that a window is attached to, and acts on this process's own."""

    def __init__(self, attached: AttachedEngine, store: Store | None, clock: Clock) -> None:
        self._attached = attached
        self._store = store
        self._clock = clock

    @cached_property
    def _sources(self) -> Sources:
        from cockpit.watch.asking import real_sources

        return real_sources(self._clock)

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform that acts on a run's job."""
        return self._sources.platform_of(run)

    async def look(self, run: str, within: float) -> RunReport:
        """Return a run as it is now; where no engine answers this process looks itself."""
        try:
            return await self._attached.check(run)
        except TimeoutError:
            from cockpit.watch.engine import Engine

            engine = Engine(
                self._attached.file, store=self._store, clock=self._clock, sources=self._sources
            )
            return (await engine.check([run], within)).runs[0]
