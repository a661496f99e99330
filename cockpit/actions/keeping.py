"""The journal from the event loop: every call in a thread of its own, with a deadline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from cockpit.model.plan import Outcome, Plan, StepResult
from cockpit.sources.offload import offload
from cockpit.store.journal import Holder, Journal, JournalEntry, Lease
from cockpit.store.store import StoreError

DEADLINE = 15.0
T = TypeVar("T")


class Keeper:
    """Asks and writes the journal; raises ``StoreError``, also for one that does not answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def place(self) -> str:
        """Where the journal lies: two cockpits with the same place share it."""
        return self._journal.place

    @property
    def writes(self) -> bool:
        """False if the journal is only read."""
        return self._journal.writes

    async def begin(
        self,
        run: str,
        plan: Plan,
        operator: str,
        holder: Holder,
        now: float,
        *,
        exclusive: bool,
        launch_id: str | None,
    ) -> JournalEntry:
        """Begin an action; raises ``Busy`` too."""
        begin = functools.partial(self._journal.begin, exclusive=exclusive, launch_id=launch_id)
        return await _asked(lambda: begin(run, plan, operator, holder, now))

    async def step(self, number: int, place: int, step: StepResult) -> None:
        """Write how a step stands."""
        await _asked(lambda: self._journal.step(number, place, step))

    async def note(self, number: int, facts: dict[str, str], job_id: str | None) -> None:
        """Write what was learned."""
        await _asked(lambda: self._journal.note(number, facts, job_id))

    async def end(
        self, number: int, outcome: Outcome, now: float, message: str, *, recorded: bool = True
    ) -> None:
        """Write how an action ended."""
        await _asked(lambda: self._journal.end(number, outcome, now, message, recorded=recorded))

    async def keep_plan(self, run: str, plan: Plan) -> None:
        """Remember a plan that was shown."""
        await _asked(lambda: self._journal.keep_plan(run, plan))

    async def plans(self, run: str, action: str, since: float) -> tuple[Plan, ...]:
        """Return the plans that were shown lately."""
        return await _asked(lambda: self._journal.plans(run, action, since))

    async def entries(self, run: str) -> tuple[JournalEntry, ...]:
        """Return a run's actions, oldest first."""
        return await _asked(lambda: self._journal.entries(run))

    async def unfinished(self, run: str) -> tuple[JournalEntry, ...]:
        """Return the actions whose end nobody has written."""
        return await _asked(lambda: self._journal.unfinished(run))

    async def launch_ids(self, run: str) -> tuple[str, ...]:
        """Return every launch id given out on this machine."""
        return await _asked(lambda: self._journal.launch_ids(run))

    async def lease(self, run: str) -> Lease | None:
        """Return who holds the run."""
        return await _asked(lambda: self._journal.lease(run))


async def _asked(ask: Callable[[], T]) -> T:
    try:
        return await offload(ask, deadline=DEADLINE)
    except TimeoutError as error:
        raise StoreError(f"the journal gave no answer within {DEADLINE:g} s") from error
