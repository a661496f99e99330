"""What an action stands on: the run as it was seen just now, and the hands it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from cockpit.actions.backend import Backend
from cockpit.model.clock import Clock
from cockpit.model.jobs import Live
from cockpit.model.records import Claim, EventEntry, InstanceEntry, Recorded
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.store import Store


class Recorder(Protocol):
    """Writes a run's records; a call returns when the record is pushed, queued or refused.

    Never raises: ``Recorded`` says how far it came. Writing the same entry again changes nothing.
    """

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        """Append an entry to the logbook's event log, commit it as ``commit``, push."""

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        """Append a launched instance."""

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        """Set fields of the Run Contract; creates the logbook if there is none."""

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice. Queued while offline."""

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue (``issue_repo``); ``url`` is where it is."""


class Guard(Protocol):
    """A claim on a lineage that other machines can see. Never raises; each call has a deadline."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands, changing nothing."""

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim by compare-and-swap; ``over`` replaces one that someone else left."""

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim is still ours (``None``: cannot be told)."""

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give the claim back if it is ours; ``used``: its launch id may have started a job."""

    async def clear(self, run: RunSpec) -> None:
        """Remove the claim if a process of this machine left it that lives no more."""


class Notifier(Protocol):
    """Reaches people (SPEC S-13)."""

    async def send(self, run: RunSpec, event: str, title: str, body: str, severity: str) -> str:
        """Send to every route for this severity; return one line about who was reached.

        Raises ``CannotError`` when nobody could be reached.
        """


@dataclass(frozen=True)
class Parts:
    """The hands: fixed for the life of a cockpit. ``store`` is ``None`` when it cannot be used."""

    clock: Clock
    store: Store | None
    journal: Journal | None
    backends: Callable[[RunSpec], Backend | None]
    guards: tuple[Guard, ...]
    recorder: Recorder
    notifier: Notifier
    look: Callable[[str], Awaitable[RunReport]]


@dataclass(frozen=True)
class Ground:
    """One run at the moment of planning."""

    file: CockpitFile
    spec: RunSpec
    report: RunReport
    key: str
    now: float
    operator: str
    parts: Parts
    live: Live
    entries: tuple[JournalEntry, ...] = ()
    launch_id: str | None = None
    claims: tuple[Claim, ...] = ()

    @property
    def backend(self) -> Backend | None:
        """The backend of the run's kind of job, if this version has one."""
        return self.parts.backends(self.spec)
