"""Whether entries that nobody types may be written: a person allows it once a run file."""

from __future__ import annotations

from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.run import NEVER, RunSpec
from cockpit.runtime.offload import offload
from cockpit.store.agents import AUTOLOG, Consents
from cockpit.store.store import Store, StoreError

KNOWN_FOR: Final = 5.0
"""Seconds for which the store is not asked again."""
STORE_WITHIN: Final = 10.0


class AutologConsent:
    """The consent of one run file; without a store, or an answer of it, there is none."""

    def __init__(self, store: Store | None, run_file: str, clock: Clock) -> None:
        self._consents = None if store is None else Consents(store)
        self._run_file = run_file
        self._clock = clock
        self._asked_at = float("-inf")
        self._given = False
        self._waiting: str | None = None
        """A run whose entry is due, and which nobody has allowed."""

    @property
    def notice(self) -> str | None:
        """What a person has to be asked, if something waits for the answer."""
        run = self._waiting
        if run is None:
            return None
        return f"automatic logbook entries wait for your consent: cockpit autolog {run}"

    async def given(self, run: RunSpec) -> bool:
        """Return whether an entry that is due now may be written."""
        if run.records.log_every == NEVER:
            return False
        if self._clock.monotonic() - self._asked_at >= KNOWN_FOR:
            self._given = await self._ask()
            self._asked_at = self._clock.monotonic()
        self._waiting = None if self._given else run.name
        return self._given

    async def _ask(self) -> bool:
        consents = self._consents
        if consents is None:
            return False
        try:
            found = await offload(consents.of, self._run_file, AUTOLOG, deadline=STORE_WITHIN)
        except (StoreError, TimeoutError):
            return False
        return found is not None
