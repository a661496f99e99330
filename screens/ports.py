"""What the screens want of the engine and of the app around them; no more is assumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cockpit.model.base import Frozen
from cockpit.model.logbook import Opened
from cockpit.model.plan import Approval, Plan, Request, Result, StepResult
from cockpit.model.records import Recorded
from cockpit.model.report import FleetReport, RunReport
from screens.deeds import Deeds
from screens.keys import Keys
from widgets.fleet_header import Watch

if TYPE_CHECKING:
    from cockpit.actions.recovery import Settled
    from cockpit.store.journal import JournalEntry


class WatchEngine(Protocol):
    """The engine, as the screens see it."""

    def report(self) -> FleetReport:
        """Return what is known now, at once."""

    def subscribe(self, callback: Callable[[RunReport], None]) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""

    async def run(self) -> None:
        """Watch until cancelled."""

    async def poke(self, name: str, facet: str | None = None) -> None:
        """Ask for a facet of a run, or for all of them, now."""

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know about the cockpit itself, one line each."""


class ActionDesk(Protocol):
    """The desk of guarded actions, as the screens see it (``cockpit.actions.desk.Desk``)."""

    async def plan(self, request: Request, approvals: Sequence[Approval] = ()) -> Plan:
        """Return what would be done; raises ``RefuseError`` for what makes no sense."""

    async def act(
        self,
        request: Request,
        words: str,
        approvals: Sequence[Approval] = (),
        *,
        shown: str | None = None,
        told: Callable[[StepResult], None] = lambda step: None,
    ) -> Result:
        """Do what was planned, if nothing has changed; ``told`` hears of every step."""

    async def recover(self, run: str) -> tuple[Settled, ...]:
        """Settle what crashed cockpits left of a run."""

    async def interrupted(self, run: str) -> tuple[Settled, ...]:
        """Return what is known of actions that nobody has ended; changes nothing."""

    async def history(self, run: str) -> tuple[JournalEntry, ...]:
        """Return every action on a run, oldest first."""


class LogbookDesk(Protocol):
    """Writes a person's own entries (``cockpit.actions.logbook_desk``). Nothing here raises."""

    async def open(self, report: RunReport, now: float) -> Opened:
        """Return the draft that was left, else an entry prefilled from what is observed."""

    async def keep(self, report: RunReport, text: str) -> str:
        """Keep a draft; return what stands in the way, or nothing."""

    def masked(self, text: str) -> str:
        """Return the text with its secrets masked: what may be written."""

    async def save(
        self, report: RunReport, text: str, told: Callable[[Recorded], None]
    ) -> Recorded:
        """Write, commit, push; ``told`` hears of every stage. A saved draft is dropped."""

    async def retry(self, report: RunReport) -> Recorded:
        """Commit and push what is saved but has not come further."""


class Offer(Frozen):
    """A guarded action for a run: ``why_not`` is why it cannot be begun, ``note`` a warning."""

    verb: str
    title: str
    help: str
    key: str = ""
    why_not: str = ""
    note: str = ""


class Cockpit(Protocol):
    """The app around the screens: what it knows and what it can be asked for."""

    @property
    def keys(self) -> Keys:
        """The keys in use."""

    @property
    def reports(self) -> Sequence[RunReport]:
        """Every run's newest report, in the run file's order."""

    @property
    def watch_state(self) -> Watch:
        """Who sits here, and whether this cockpit is watching."""

    @property
    def notice(self) -> str:
        """The newest thing to tell, until a key is pressed."""

    def now(self) -> float:
        """Return seconds since the epoch."""

    def say(self, words: str) -> None:
        """Show one line until the next key."""

    def look_again(self, name: str) -> None:
        """Ask every source of a run again."""

    def seen(self, name: str) -> None:
        """Record that a person looks at a run's alerts."""

    def open_run(self, name: str) -> None:
        """Show a run's own screen."""

    @property
    def deeds(self) -> Deeds:
        """The actions under way."""

    @property
    def reading_only(self) -> str:
        """Why nothing may be changed here, or nothing."""

    def desk(self) -> Awaitable[ActionDesk]:
        """Return the desk of guarded actions; only asked for where actions are offered."""

    async def journal_stands(self) -> object | None:
        """Return what changes whenever the journal may have; ``None`` if that is not known."""

    @property
    def books(self) -> LogbookDesk | None:
        """What writes a person's own entries."""

    def act(self, verb: str, run: str | None = None) -> None:
        """Begin a guarded action on a run (default: the selected one), or say why not."""

    def open_page(self) -> None:
        """Show the handoff page of the selected run."""

    def open_journal(self) -> None:
        """Show what was done to the selected run, and what was interrupted."""

    def go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work that goes on when the screen that began it is left."""

    def fault(self, error: BaseException) -> str:
        """Keep the details of a fault of the cockpit's own; return the one line about it."""

    def copy(self, text: str) -> None:
        """Copy text to the person's own clipboard and say which way it went."""
