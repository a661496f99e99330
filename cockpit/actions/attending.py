"""What an open cockpit does for runs that nobody watches: tells people, follows launches."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.actions.aftercare import Aftercare
from cockpit.actions.wiring import build_aftercare
from cockpit.model.clock import Clock
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from cockpit.watch.notifier import Notifications
from cockpit.watch.telling import Telling

LEAVE_WITHIN = 0.2


class Attending:
    """Notifications and aftercare of one cockpit, begun and ended together."""

    def __init__(self, telling: Telling, aftercare: Aftercare) -> None:
        self._telling = telling
        self._aftercare = aftercare

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about it, one line each."""
        return (*self._telling.notices, *self._aftercare.notices)

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._telling.start()
        self._aftercare.start()

    async def stop(self) -> None:
        """End; a message that is being sent has a moment to go out."""
        self._telling.stop()
        await self._aftercare.stop()
        await self._telling.finish(LEAVE_WITHIN)


def attending(
    engine: Engine,
    store: Store | None,
    clock: Clock,
    operator: str,
    ring: Callable[[str], None],
) -> Attending:
    """Return the attendance of an open cockpit; a headless watch that owns a run goes first."""
    notifications = Notifications(engine.file, store, clock, ring=ring, operator=operator)
    aftercare = build_aftercare(engine, store, clock, lambda report: report.watched_by is None)
    return Attending(Telling(engine, notifications, clock), aftercare)
