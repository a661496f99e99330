"""The outbox from the event loop: in a thread, with a deadline, and done without if it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from cockpit.sources.offload import offload
from cockpit.store.outbox import Outbox
from cockpit.store.store import Store, StoreError

T = TypeVar("T")
DEADLINE: Final = 10.0


class Box:
    """Asks the outbox of a store, if there is one: what is posted is known by its marker too."""

    def __init__(self, store: Store | None) -> None:
        self._outbox = None if store is None else Outbox(store)

    async def ask(self, ask: Callable[[Outbox], T]) -> T | None:
        """Return what the outbox answers; ``None`` without a store that can be used."""
        outbox = self._outbox
        if outbox is None:
            return None
        try:
            return await offload(lambda: ask(outbox), deadline=DEADLINE)
        except (StoreError, TimeoutError):
            return None
