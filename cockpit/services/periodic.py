"""The compact entry of a cadence in a hero run's logbook: one per period, whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.records import EventEntry
from cockpit.model.report import RunReport
from cockpit.model.run import NEVER, RunSpec
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.writing import has_entry, written_since
from cockpit.records.recorder import RecordWriter
from cockpit.rules.lineage.success import entry_every, newest_event
from cockpit.runtime.moment import Jumps, moment
from cockpit.runtime.offload import offload
from cockpit.services.service import STORE_WITHIN
from cockpit.store.agents import AUTOLOG, Consents
from cockpit.store.ownership import Turn, Turns
from cockpit.store.store import Store, StoreError

ENTRY: Final = "logbook entry"
EVENTS_APART: Final = 120.0
"""Seconds between two entries that each follow an event."""
MINUTE: Final = 60.0
"""What the time of an entry in a logbook is exact to (s)."""
T = TypeVar("T")


class PeriodicEntries:
    """Writes the entries; without a store (``turns``) this process alone decides."""

    def __init__(self, recorder: RecordWriter, turns: Turns | None, clock: Clock) -> None:
        self._recorder = recorder
        self._turns = turns
        self._clock = clock
        self._jumps = Jumps(clock)
        self._logged_at: dict[str, float] = {}

    async def write(self, key: str, report: RunReport) -> None:
        """Append the entry if it is due: a hero run's, others' where they ask for it.

        ``key`` is the ``run_key``. Raises ``StoreError`` and ``TimeoutError`` if nobody can tell
        whose turn it is.
        """
        if not self.due(report):
            return
        turn, every = None, entry_every(report.spec) or EVENTS_APART
        if self._turns is not None:
            take = partial(self._turns.take, key, ENTRY, every)
            turn = await offload(lambda: take(moment(self._clock)), deadline=STORE_WITHIN)
            if turn is None:
                return
        at = self._clock.now() if turn is None else turn.at.wall
        self._logged_at[report.name] = at
        entry = prefill(report, "check", at)
        entry = entry.model_copy(update={"evidence": "", "decision": ""})
        commit = f"{report.name}: log check"
        if turn is None or self._turns is None:
            await self._recorder.event(report.spec, entry, commit)
            return
        await self._recorder.event_if(
            report.spec, entry, commit, _guard(self._turns, turn, entry, every)
        )
        await offload(partial(self._turns.done, turn), deadline=STORE_WITHIN)

    def due(self, report: RunReport) -> bool:
        """Return whether an entry is due, as far as it is known without the store."""
        spec, last = report.spec, report.facets.records.value
        asked = spec.tier == "hero" or spec.records.log_every is not None
        if spec.records.logbook is None or not asked or not report.facets.job.known:
            return False
        if last is None:
            return False
        newest = max(last.last_entry_at or 0.0, self._logged_at.get(spec.name, 0.0))
        if spec.records.log_every == NEVER:
            return False
        every, event = entry_every(spec), newest_event(report)
        if every is None:
            return event is not None and event >= newest + MINUTE
        return self._jumps.since(newest) >= every


def _guard(turns: Turns, turn: Turn, entry: EventEntry, every: float) -> Callable[[bytes], bool]:
    """Return what is asked under the logbook's lock: whether the entry is to be written.

    A cockpit with another store (another account, another home) may have written this period's.
    """
    decided: list[bool] = []

    def wanted(data: bytes) -> bool:
        if not decided:
            turns.begin(turn)
            ours = turn.again and has_entry(data, entry.title, entry.at)
            since = entry.at - every + MINUTE
            decided.append(not (ours or written_since(data, entry.title, since, entry.at)))
        return decided[0]

    return wanted


KNOWN_FOR: Final = 5.0
"""Seconds for which the store is not asked again."""


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
