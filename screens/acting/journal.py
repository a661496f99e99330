"""The journal: what was interrupted comes first, then what was done; and how both are said."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from cockpit.actions.core.action import RefuseError
from cockpit.model.acts import ending
from cockpit.model.jobs import LaunchState
from cockpit.model.plan import Outcome, Plan, StepState
from cockpit.model.wording import clock_time
from cockpit.store.store import StoreError
from screens.base import ActingScreen, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import KeyLine
from widgets.painting.journal import Done, Open, paint_done, paint_open
from widgets.painting.line import DIM, EMPTY, STRONG, text
from widgets.scrolled import Scrolled

if TYPE_CHECKING:
    from cockpit.actions.core.recovery import InterruptedAction
    from cockpit.store.journal import JournalEntry

UNDER_WAY: Final = (
    "nothing, unless its process is stopped: whoever runs it will finish it; what else acts on "
    "the run stays blocked until then"
)
ELSEWHERE: Final = (
    "check there: from here it is unknown whether it continues; what else acts on the run stays "
    "blocked until its end is known, or someone approves that it is over"
)
_DECIDE: Final = {
    Outcome.DONE: "nothing: {key} records how it ended and finishes its records",
    Outcome.FAILED: "{key} records how it ended; then plan again if still needed",
    Outcome.UNKNOWN: "check on the system itself whether it happened; {key} looks it up again; "
    "until it is known no other action on the run is possible",
    Outcome.REFUSED: "nothing",
}


class Pages(Scrolled):
    """Interrupted actions, then the others; every line knows whose it is."""

    POINTS = True

    def __init__(self) -> None:
        super().__init__()
        self.open: Sequence[InterruptedAction] = ()
        self.entries: Sequence[JournalEntry] = ()
        self.runs: Sequence[str] = ()
        self.now = 0.0
        self.status = "reading the journal"
        self.settle_key = ""
        self._runs: list[str | None] = []

    @property
    def run(self) -> str | None:
        """The run of the action under the cursor."""
        here = [run for run in self._runs[self.cursor :] if run is not None]
        return here[0] if here else None

    def take(self, found: Sequence[InterruptedAction], entries: Sequence[JournalEntry]) -> None:
        """Take what the journal says by now; the cursor stays with the run that it stands at."""
        run = self.run
        self.open, self.entries = tuple(found), tuple(entries)
        self.repaint()
        if run is not None and self.run != run and run in self._runs:
            self.move(self._runs.index(run) - self.cursor)

    def body(self, width: int) -> list[Content]:
        """Return every line."""
        lines: list[Content] = []
        self._runs = []

        def put(run: str | None, *block: Content) -> None:
            lines.extend(block)
            self._runs.extend([run] * len(block))

        if self.status:
            put(None, text((self.status, DIM)), EMPTY)
        if self.open:
            put(None, text(("interrupted; nothing is retried automatically", STRONG)), EMPTY)
        for settled in self.open:
            put(
                settled.entry.plan.run,
                *paint_open(open_of(settled, self.settle_key), self.now, width),
                EMPTY,
            )
        shown = {settled.entry.number for settled in self.open}
        others = [each for each in self.entries if each.number not in shown]
        if others:
            put(None, text(("done", STRONG)))
        for each in sorted(others, key=lambda entry: entry.begun_at, reverse=True):
            put(each.plan.run, *paint_done(done_of(each), self.now, width, named=True))
        return lines

    def title(self) -> Content:
        """Return the heading."""
        many = len(self.runs) > 1
        about = f" · {len(self.runs)} runs" if many else "".join(f" · {each}" for each in self.runs)
        keys = f" · keys act on {self.run}" if many and self.run is not None else ""
        return text(("journal", STRONG), (about + keys, DIM))

    def note(self) -> Content:
        """Return how many were interrupted."""
        count = sum(map(settles, self.open))
        return text((f"■ {count} interrupted", "bold $critical")) if count else EMPTY


class JournalScreen(ActingScreen):
    """What is known of interrupted actions, what was looked up, what a person must decide."""

    SCOPES = ("journal", "act", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("journal", "act")

    def __init__(
        self, cockpit: Cockpit, runs: Sequence[str], found: Sequence[InterruptedAction] = ()
    ) -> None:
        super().__init__(cockpit)
        self._names = tuple(runs)
        self._pages = Pages()
        self._pages.open, self._pages.runs = tuple(found), self._names
        if not cockpit.actions.reading_only:
            self._pages.settle_key = cockpit.keys.shown("settle")

    def compose(self) -> ComposeResult:
        """Lay out the journal and the footer."""
        yield self._pages
        yield KeyLine()

    def on_mount(self) -> None:
        """Ask the journal."""
        super().on_mount()
        self.ask()

    @property
    def selected(self) -> str | None:
        """Return the run of the action under the cursor, else the first asked for."""
        return self._pages.run or next(iter(self._names), None)

    def ask(self, status: str = "") -> None:
        """Ask the journal anew; ``status`` stands above what it answers."""
        work = partial(self._ask, status)
        spawn(self, work, group="journal", exclusive=True)

    async def _ask(self, status: str) -> None:
        pages = self._pages
        entries: list[JournalEntry] = []
        found: list[InterruptedAction] = []
        try:
            service = await self.cockpit.actions.service()
            for run in self._names:
                found += await service.interrupted(run)
                entries += await service.history(run)
        except (RefuseError, StoreError, TimeoutError) as error:
            pages.status = f"cannot read the journal: {error}"
        else:
            nothing = f"no actions yet on {', '.join(self._names)}"
            pages.status = status or ("" if found or entries else nothing)
            pages.take(found, entries)
            self.cockpit.actions.settled(self._names, found)
        self.show()

    def show(self) -> None:
        """Show what is known by now."""
        if not self.is_mounted:
            return
        self._pages.now = self.cockpit.now()
        self._pages.repaint()
        self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        keys = self.cockpit.keys
        offered = keys.footer("journal")
        if self.cockpit.actions.reading_only:
            offered = [each for each in offered if each[0] != keys.shown("settle")]
        return offered

    def action_settle(self) -> None:
        """Look up and write down how the interrupted actions of the selected run ended."""
        run = self.selected
        mine = [each for each in self._pages.open if each.entry.plan.run == run]
        if self.cockpit.actions.reading_only:
            self.cockpit.say(self.cockpit.actions.reading_only)
        elif run is None or not mine:
            self.cockpit.say("nothing was interrupted here")
        elif not any(map(settles, mine)):
            self.cockpit.say("in progress elsewhere or here: nothing to resolve yet")
        else:
            spawn(self, partial(self._settle, run))

    async def _settle(self, run: str) -> None:
        try:
            settled = await (await self.cockpit.actions.service()).recover(run)
        except (RefuseError, StoreError, TimeoutError) as error:
            self.cockpit.warn(f"not resolved: {error}")
            return
        words = [f"{each.entry.action}: {each.outcome.value}" for each in settled if each.outcome]
        self.ask(f"resolved {run}: {', '.join(words) or 'nothing left to resolve'}")

    def action_journal_open(self) -> None:
        """Open the run of the selected action."""
        run = self.selected
        if run is not None:
            self.dismiss(None)
            self.cockpit.open_run(run)

    def action_journal_back(self) -> None:
        """Go back."""
        self.dismiss(None)

    def action_step(self, steps: int) -> None:
        """Step by lines."""
        self._pages.move(steps)

    def action_turn(self, pages: int) -> None:
        """Turn pages."""
        self._pages.page(pages)


def done_of(entry: JournalEntry) -> Done:
    """Return a journal entry as it is painted."""
    return Done(
        run=entry.plan.run,
        action=entry.action,
        by=entry.operator,
        begun_at=entry.begun_at,
        outcome=entry.outcome,
        ended_at=entry.ended_at,
        message=entry.message,
        job_id=entry.job_id,
        records=entry.written,
        at_it=entry.at_it,
    )


async def done_to(cockpit: Cockpit, run: str) -> tuple[Done, ...]:
    """Return what was done to a run; nothing where there is no journal to ask."""
    try:
        entries = await (await cockpit.actions.service()).history(run)
    except (RefuseError, StoreError, TimeoutError):
        return ()
    return tuple(done_of(entry) for entry in entries)


async def meanwhile(cockpit: Cockpit, plan: Plan) -> str:
    """Return what somebody has done to the run since the plan was made, else nothing."""
    since = [
        done for done in await done_to(cockpit, plan.run)
        if done.begun_at >= plan.made_at and done.outcome is not Outcome.REFUSED
    ]  # fmt: skip
    if not since:
        return ""
    last = max(since, key=lambda done: done.begun_at)
    ended = ending(last.outcome, last.records, last.at_it)
    at = clock_time(last.begun_at, seconds=True)
    return f". Meanwhile {last.by} began {last.action} at {at}: {ended}"


def open_of(settled: InterruptedAction, key: str) -> Open:
    """Return an interrupted action: what is known, what was looked up, what is to be decided.

    ``key`` settles it; without one (nothing may be changed here) another cockpit does.
    """
    entry = settled.entry
    done = done_of(entry)._replace(
        outcome=settled.outcome,
        job_id=settled.job_id or entry.job_id,
        at_it=None if settled.elsewhere else True,
    )
    looked = settled.looked_up
    clear = settled.outcome is not Outcome.UNKNOWN
    steps = ", ".join(f"{step.name} {_state(step.state, clear)}" for step in entry.steps)
    found = "nothing to look up" if looked is None else f"{_FOUND[looked.found]}: {looked.text}"
    who = key or "a cockpit that may act"
    waits = ELSEWHERE if settled.elsewhere else UNDER_WAY
    decide = waits if settled.outcome is None else _DECIDE[settled.outcome].format(key=who)
    what = settled.text if looked is None else f"{entry.action} by {entry.operator}"
    return Open(done, f"{what} ({steps or 'no step was begun'})", found, decide)


_FOUND: Final = {
    LaunchState.LIVE: "it runs",
    LaunchState.ENDED: "it ran and has ended",
    LaunchState.ABSENT: "it never started and never will",
    LaunchState.UNKNOWN: "not known",
}


def _state(state: StepState, clear: bool) -> str:
    """Return how a step stands; ``clear``: what became of it all is known."""
    if state is not StepState.BEGUN:
        return state.value
    return "begun" if clear else "started, outcome unknown"


def settles(settled: InterruptedAction) -> bool:
    """Return whether a person can settle it here: whoever was at it is gone."""
    return settled.outcome is not None
