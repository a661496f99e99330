"""Every call of an agent is written down, counted by the hour: reads must not bloat the store.

They are kept for a while and written together, since each write makes every engine on the store
look at it again; a plan or an act is written down by itself, at once.
"""

from __future__ import annotations

from typing import Final

from cockpit.actions.core.action import asked
from cockpit.model.clock import Clock
from cockpit.store.agents import AgentRecords, Call
from cockpit.store.store import Store, StoreError

WRITE_EVERY: Final = 30.0
"""Seconds for which calls gather."""
MOST: Final = 2_000
"""Calls that are kept while the store cannot be written; older ones are lost, and that is said."""


class CallBook:
    """The calls that are not written down yet."""

    def __init__(self, store: Store | None, clock: Clock) -> None:
        self.trouble = "" if store is not None else "there is no store: calls are not recorded"
        self._records = None if store is None else AgentRecords(store)
        self._clock = clock
        self._calls: list[Call] = []

    def called(self, run: str, agent: str, tool: str, ended: str) -> None:
        """Take down a call; ``run`` is a ``run_key``."""
        if self._records is not None:
            self._calls.append(Call(run, agent, tool, ended, self._clock.now()))
            del self._calls[:-MOST]

    async def keep(self) -> None:
        """Write what has gathered, every while, until cancelled."""
        while True:
            await self._clock.sleep(WRITE_EVERY)
            await self.write()

    async def write(self) -> None:
        """Write what has gathered; what cannot be written waits."""
        calls, self._calls = self._calls, []
        if self._records is None or not calls:
            return
        try:
            await asked(self._records.called, calls)
        except StoreError as error:
            self._calls = [*calls, *self._calls][-MOST:]
            self.trouble = f"calls are not recorded: {error}"
        else:
            self.trouble = ""
