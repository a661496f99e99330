"""What an action's checks and steps read: the run as seen just now, and the services they use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cockpit.model.clock import Clock
from cockpit.model.jobs import Live
from cockpit.model.records import Claim
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import OWNER, own_word, typist
from cockpit.platforms.base import Platform
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.store import Store

if TYPE_CHECKING:
    from cockpit.notify.notifier import Notifications
    from cockpit.records.recorder import RecordWriter

STARTED: Final = "started"


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


@dataclass(frozen=True)
class Dependencies:
    """The services that actions use, fixed for the life of a cockpit.

    ``store`` is ``None`` when it cannot be used; ``notifier`` returns the notifications of the
    run file in use.
    """

    clock: Clock
    store: Store | None
    journal: Journal | None
    platforms: Callable[[RunSpec], Platform | None]
    guards: tuple[Guard, ...]
    recorder: RecordWriter
    notifier: Callable[[], Notifications]
    look: Callable[[str], Awaitable[RunReport]]
    login: str = ""
    """The account of this machine that acts, whatever name the operator goes by."""
    reread: Callable[[], CockpitFile] | None = None
    """Reads the run file as it lies there now, whatever is in use; raises ``ConfigError``."""
    drafts: Path | None = None
    """The folder with entries that were begun and not saved; ``None``: not looked for."""


@dataclass(frozen=True)
class ActionContext:
    """One run at the moment of planning."""

    file: CockpitFile
    spec: RunSpec
    report: RunReport
    key: str
    now: float
    operator: str
    parts: Dependencies
    live: Live
    entries: tuple[JournalEntry, ...] = ()
    launch_id: str | None = None
    claims: tuple[Claim, ...] = ()
    ids_unread: tuple[str, ...] = ()
    """Where launch ids may stand that were given out and could not be looked up, and why not."""

    @property
    def typed_by(self) -> str:
        """Who is at the keyboard: the operator's name, and the account where it differs."""
        return typist(self.operator, self.parts.login)

    @property
    def people(self) -> frozenset[str]:
        """Those whom the run file and the records of this run name."""
        return people_of(self.file, self.report)

    def is_word_of(self, name: str) -> bool:
        """Tell whether what is typed now is ``name``'s own word."""
        return own_word(name, self.typed_by, self.people)

    @property
    def platform(self) -> Platform | None:
        """The platform of the run's job; ``None`` for a run that names no job."""
        return self.parts.platforms(self.spec)

    @property
    def acting_platform(self) -> Platform | None:
        """The platform if this version can act on its jobs."""
        return acting(self.platform)

    @property
    def job_id(self) -> str:
        """The id of the present job; empty without one."""
        job = self.report.facets.job.value
        return (job.id if job is not None else None) or ""

    @property
    def job_start(self) -> str:
        """When the present job began, for a fact; empty if that is not known."""
        job = self.report.facets.job.value
        return "" if job is None or job.started_at is None else f"{job.started_at:.3f}"


def people_of(file: CockpitFile, report: RunReport | None) -> frozenset[str]:
    """Return the people that a run file names and, with a report, those that its run was handed."""
    named = {run.dri for run in file.runs} | {file.notify.second}
    records = None if report is None else report.facets.records.value
    for told in () if records is None else records.told:
        if told.what == OWNER:
            named |= {told.value, told.parts.get("from")}
    return frozenset(name for name in named if name)


def job_in(facts: Mapping[str, str]) -> tuple[str, float | None]:
    """Return the job that a plan's facts name: its id, and when it began."""
    started = facts.get(STARTED)
    return facts.get("job", ""), float(started) if started else None


def acting(platform: Platform | None) -> Platform | None:
    """Return a platform if this version can act on its jobs."""
    return platform if platform is not None and platform.acts else None


def living(report: RunReport, live: Live) -> Live:
    """Return what lives of a run's lineage: what waits for its job's end is told with that job."""
    job = report.facets.job.value
    return live if job is None else live.without_waiting(job.queued)
