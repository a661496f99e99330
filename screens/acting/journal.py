"""What was done to runs, and what is open: the journal, and the points before a run is handed over.

In the journal what was interrupted comes first. The open points end in the typed transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from cockpit.actions.core.action import RefuseError
from cockpit.model.acts import ending
from cockpit.model.jobs import LaunchState
from cockpit.model.plan import Outcome, Plan, StepState
from cockpit.model.records import Point, PointMark, Unfinished, note_of, points_of
from cockpit.model.wording import clock_time, moment, steps
from cockpit.store.store import StoreError
from screens.base import spawn
from screens.dialog import ListScreen, Prompt
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.painted import Filter
from widgets.painting.journal import ActionProgress, Done, Open, paint_done, paint_open, paint_steps
from widgets.painting.line import DIM, EMPTY, STRONG, chosen_row, text, wrapped
from widgets.painting.plan import paint_point
from widgets.scrolled import Row

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


class JournalScreen(ListScreen):
    """What is known of interrupted actions, what was looked up, what a person must decide."""

    SCOPES = ("journal", "act", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("journal", "act", "list")

    def __init__(
        self, cockpit: Cockpit, runs: Sequence[str], found: Sequence[InterruptedAction] = ()
    ) -> None:
        super().__init__(cockpit)
        self._names = tuple(runs)
        self._open = tuple(found)
        self._entries: Sequence[JournalEntry] = ()
        self._status = "reading the journal"
        self._unfolded = ""
        """The action whose whole record is shown."""

    def on_mount(self) -> None:
        """Ask the journal."""
        super().on_mount()
        self.ask()

    @property
    def selected(self) -> str | None:
        """Return the run of the chosen action, else the first asked for."""
        run = self.chosen.rpartition(" ")[0]
        return run or next(iter(self._names), None)

    def rows(self) -> list[Row]:
        """Return the interrupted actions, then the others, newest first."""
        now, offered = self.cockpit.now(), not self.cockpit.actions.reading_only
        settle = self.cockpit.keys.shown("settle") if offered else ""
        shown = {each.entry.number for each in self._open}
        others = [each for each in self._entries if each.number not in shown]
        others.sort(key=lambda entry: entry.begun_at, reverse=True)
        found = [_heading(self._status, DIM)] if self._status else []
        found += [_heading("interrupted; nothing is retried automatically")] if self._open else []
        for each in self._open:
            row = partial(_open_row, open_of(each, settle), now)
            found.append(Row(_key(each.entry), row))
        found += [_heading("done")] if others else []
        return found + [
            Row(key := _key(each), partial(_done_row, each, now, key == self._unfolded))
            for each in others
        ]

    def heading(self) -> Content:
        """Return whose journal it is, and of several runs which one the keys act on."""
        many = len(self._names) > 1
        about = f" · {len(self._names)} runs" if many else "".join(f" · {n}" for n in self._names)
        keys = f" · keys act on {self.selected}" if many and self.chosen else ""
        return text(("journal", STRONG), (about + keys, DIM))

    def note(self) -> Content:
        """Return how many were interrupted."""
        count = sum(map(settles, self._open))
        return text((f"■ {count} interrupted", "bold $critical")) if count else EMPTY

    def ask(self, status: str = "") -> None:
        """Ask the journal anew; ``status`` stands above what it answers."""
        work = partial(self._ask, status)
        spawn(self, work, group="journal", exclusive=True)

    async def _ask(self, status: str) -> None:
        entries: list[JournalEntry] = []
        found: list[InterruptedAction] = []
        try:
            service = await self.cockpit.actions.service()
            for run in self._names:
                found += await service.interrupted(run)
                entries += await service.history(run)
        except (RefuseError, StoreError, TimeoutError) as error:
            self._status = f"cannot read the journal: {error}"
        else:
            nothing = f"no actions yet on {', '.join(self._names)}"
            self._status = status or ("" if found or entries else nothing)
            self._open, self._entries = tuple(found), tuple(entries)
            self.cockpit.actions.settled(self._names, found)
        self.show()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        settle = self.cockpit.keys.shown("settle")
        reading_only = self.cockpit.actions.reading_only
        return [each for each in super().footer() if not reading_only or each[0] != settle]

    def action_settle(self) -> None:
        """Look up and write down how the interrupted actions of the selected run ended."""
        run = self.selected
        mine = [each for each in self._open if each.entry.plan.run == run]
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

    def action_journal_record(self) -> None:
        """Show the whole record of the chosen action, or its row alone again."""
        self._unfolded = "" if self._unfolded == self.chosen else self.chosen
        self.show()
        self.reveal()

    def action_journal_open(self) -> None:
        """Open the run of the selected action."""
        run = self.selected
        if run is not None:
            self.dismiss(None)
            self.cockpit.open_run(run)


def _key(entry: JournalEntry) -> str:
    return f"{entry.plan.run} {entry.number}"


def _heading(words: str, style: str = STRONG) -> Row:
    return Row("", lambda width, _: [*wrapped(text((words, style)), width, 3), EMPTY])


def _open_row(found: Open, now: float, width: int, chosen: bool) -> list[Content]:
    first, *rest = paint_open(found, now, width - 2)
    return [chosen_row(first, width, chosen), *_under([*rest, EMPTY])]


def _done_row(
    entry: JournalEntry, now: float, whole: bool, width: int, chosen: bool
) -> list[Content]:
    first, *rest = paint_done(done_of(entry), now, width - 2, named=True)
    asked = wrapped(text((asked_of(entry), DIM)), width - 4, 2)
    record = [EMPTY, *_under(_record(entry, width - 6)), EMPTY] if whole else []
    return [chosen_row(first, width, chosen), *_under([*_under(asked), *rest, *record])]


def _under(lines: Sequence[Content]) -> list[Content]:
    return [text("  ", line) for line in lines]


def asked_of(entry: JournalEntry) -> str:
    """Return what an action was asked to do: ``step 8,000 · reason: the node died``."""
    step = None if entry.plan.checkpoint is None else entry.plan.checkpoint.step
    said = [] if step is None else [f"step {steps(step)}"]
    params = {name: value for name, value in entry.plan.params.items() if name not in _OWN}
    return " · ".join([*said, *(f"{name.replace('-', ' ')}: {it}" for name, it in params.items())])


_OWN: Final = ("key", "by")
"""What an acknowledgement keeps for itself: which alert, and who stands in the row already."""


def _record(entry: JournalEntry, width: int) -> list[Content]:
    """Return the plan in a sentence, what was run, who approved what, and every step."""
    plan = entry.plan
    lines = wrapped(Content(plan.summary), width, 6)
    lines += wrapped(text(("ran  ", DIM), plan.command or ""), width, 6) if plan.command else []
    for check in plan.checks:
        if check.approved is not None:
            by = f"approved by {check.approved.whose}  "
            lines += wrapped(text((by, "$attention"), check.text), width, 4)
    progress = ActionProgress(entry.steps, None, root=None)
    return [*lines, *(paint_steps(progress, width) if entry.steps else [])]


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
    # how a step stands that was begun, depends on whether it is known what became of it all
    begun = "started, outcome unknown" if settled.outcome is Outcome.UNKNOWN else "begun"
    states = {state: state.value for state in StepState} | {StepState.BEGUN: begun}
    did = ", ".join(f"{step.name} {states[step.state]}" for step in entry.steps)
    found = "nothing to look up" if looked is None else f"{_FOUND[looked.found]}: {looked.text}"
    who = key or "a cockpit that may act"
    waits = ELSEWHERE if settled.elsewhere else UNDER_WAY
    decide = waits if settled.outcome is None else _DECIDE[settled.outcome].format(key=who)
    what = settled.text if looked is None else f"{entry.action} by {entry.operator}"
    return Open(done, f"{what} ({did or 'no step was begun'})", found, decide)


_FOUND: Final = {
    LaunchState.LIVE: "it runs",
    LaunchState.ENDED: "it ran and has ended",
    LaunchState.ABSENT: "it never started and never will",
    LaunchState.UNKNOWN: "not known",
}


def settles(settled: InterruptedAction) -> bool:
    """Return whether a person can settle it here: whoever was at it is gone."""
    return settled.outcome is not None


NOTE_MOST: Final = 300
"""Letters of a note; the rest is cut off."""


class PointsScreen(ListScreen):
    """Goes through what is open; ``marks`` outlive the screen: a look elsewhere costs nothing.

    Returns the handoff's note, or ``None`` for going back.
    """

    NAME = "open points"
    ASKS = "why it stays open, and who owns it   enter keep · esc cancel"
    SCOPES = ("points", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("points", "list")

    def __init__(self, cockpit: Cockpit, run: str, marks: dict[str, PointMark]) -> None:
        super().__init__(cockpit)
        self._run = run
        self._marks = marks
        self._draft: Unfinished | None = None
        self._noted_of = ""
        """Of which point the line asks for a note: it may go while that is typed."""

    @on(events.ScreenResume)
    def _look_for_draft(self) -> None:
        """Look whether an entry was begun and not saved: again after the editor."""
        spawn(self, self._read_draft, group="draft", exclusive=True)

    async def _read_draft(self) -> None:
        report = self.cockpit.report_of(self._run)
        if report is not None:
            self._draft = await self.cockpit.actions.unfinished(report)
            self.show()

    @property
    def selected(self) -> str | None:
        """Return the run that the points are of."""
        return self._run

    @property
    def points(self) -> tuple[Point, ...]:
        """The points as they are by now."""
        report = self.cockpit.report_of(self._run)
        actions = self.cockpit.actions.interrupted
        unresolved = [
            (f"{each.entry.action} of {moment(each.entry.begun_at)}", each.text)
            for each in actions
            if each.entry.plan.run == self._run and each.outcome is not None
        ]
        return () if report is None else points_of(report, unresolved, self._draft)

    def instead(self, keys: Sequence[str], former: Sequence[str]) -> str:
        """Return the first point that is not marked: the one that was at hand is gone."""
        return next((key for key in keys if key not in self._marks), keys[0] if keys else "")

    def rows(self) -> list[Row]:
        """Return the points as they are by now."""
        now, kept = self.cockpit.now(), self.page.kept
        return [
            Row(each.key, partial(paint_point, _shown(each, kept), self._marks.get(each.key), now))
            for each in self.points
        ]

    def heading(self) -> Content:
        """Return whose points they are, and how many were reviewed."""
        points = self.points
        gone = sum(each.key in self._marks for each in points)
        return text(super().heading(), (f"  {gone} of {len(points)} reviewed", DIM))

    def note(self) -> Content:
        """Return what follows."""
        return text(("then hand off, by typing", DIM))

    def action_point_discussed(self) -> None:
        """Mark the point at hand as discussed, and go to the next."""
        self._mark_point(self.chosen, PointMark(discussed=True))

    def action_point_left(self) -> None:
        """Leave the point at hand open, with a note."""
        if self.chosen:
            self._noted_of = self.chosen
            mark = self._marks.get(self._noted_of)
            self.query_one(Prompt).ask(mark.note if mark is not None else "")

    @on(Input.Submitted)
    def _noted(self, event: Input.Submitted) -> None:
        self.query_one(Prompt).close()
        note = " ".join(event.value.split())[:NOTE_MOST]
        self._mark_point(self._noted_of, PointMark(discussed=False, note=note))

    def _mark_point(self, key: str, mark: PointMark) -> None:
        """Mark the point that was shown, not another one that stands in its place by now."""
        if key in {each.key for each in self.points}:
            self._marks[key] = mark
            self.action_step(1)
        else:
            self.cockpit.say("that point is gone: nothing was noted")
            self.show()

    def action_act(self, verb: str) -> None:
        """Go on to the transfer: its form holds what was left open as the note."""
        self.dismiss(note_of(self.points, self._marks))


def _shown(point: Point, kept: Filter) -> Point:
    """Return a point as it may be shown: masked before it is wrapped, half a path is none."""

    def shown(words: str) -> str:
        return kept(Content(words)).plain

    evidence = tuple((shown(words), shown(source)) for words, source in point.evidence)
    return point._replace(title=shown(point.title), evidence=evidence, next=shown(point.next))
