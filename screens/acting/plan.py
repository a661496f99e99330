"""The plan of an action: read like a checklist, confirmed by typing, watched while it is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from cockpit.actions.core.action import RefuseError
from cockpit.model.plan import Approval, Check, Level, Outcome, Plan, Request
from cockpit.store.store import StoreError
from screens.acting.form import ApproveScreen
from screens.acting.journal import meanwhile
from screens.acting.offers import heading
from screens.acting.running import RunningAction, follows
from screens.base import pressed_at, spawn
from screens.dialog import VISIBLE, Dialog, DialogBox, WordsLine, difference
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import paint_key
from widgets.painting.journal import ActionProgress, paint_steps
from widgets.painting.line import ACCENT, DIM, LINE, STRONG, cut, row, text, wrapped
from widgets.painting.plan import changes, paint_plan
from widgets.scrolled import Paged, Sheet

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService

SAVE_FIRST: Final = "save-first"
SUCCESSORS: Final = "successors"
REMEDIES: Final = ("rollback", "stop")
"""The remedies of a block that have a key in the plan."""
NARROW: Final = 60
"""Columns below which the heading counts checks without words, so that the run stays in it."""
ASKS_BELOW: Final = 2
"""Rows from the box's lower edge to the line of the words."""


class PlanScreen(Dialog[None]):
    """Plans, asks for the words, hands the action to the app, and shows its steps."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("plan")

    def __init__(
        self, cockpit: Cockpit, request: Request, running_action: RunningAction | None = None
    ) -> None:
        super().__init__()
        self.cockpit = cockpit
        self.plan: Plan | None = None if running_action is None else running_action.plan
        self.request = request
        self.approvals: dict[str, Approval] = {}
        self._running_action = running_action
        self._unwatch: Callable[[], None] | None = None
        self._hint = ""
        self._notice = ""
        self._changed: frozenset[str] = frozenset()
        self._trouble = ""
        self._planning = self._unfolded = False
        self._over_at = 0.0
        self._service: ActionService | None = None

    def compose(self) -> ComposeResult:
        """Lay out the page, and above it the line for the words."""
        with DialogBox():
            yield Paged()
            keys = self.cockpit.keys
            turns = keys.of("plan_page_down"), keys.of("plan_page_up")
            yield WordsLine(keys.of("plan_confirm"), *turns)

    def on_mount(self) -> None:
        """Plan, or watch what is under way already."""
        if self._running_action is not None:
            self._watch(self._running_action)
        else:
            self.plan_again()

    def on_unmount(self) -> None:
        """Stop watching; what is under way goes on."""
        if self._unwatch is not None:
            self._unwatch()

    @property
    def asks(self) -> bool:
        """True while the words can be typed."""
        return (
            self.plan is not None
            and not (self.plan.blocked or self._planning or self._trouble)
            and self._running_action is None
            and not self.cockpit.actions.reading_only
        )

    @property
    def begun(self) -> bool:
        """True once the action was handed on to be done."""
        return self._running_action is not None

    @property
    def unplanned(self) -> bool:
        """True if no plan could be made for the request."""
        return self.plan is None and bool(self._trouble)

    def plan_again(self, notice: str = "") -> None:
        """Plan anew; ``notice`` stands above the new plan, and what changed is marked."""
        self._planning, self._trouble, self._hint, self._notice = True, "", "", notice
        self.query_one(WordsLine).hide()
        self.lay_out()
        spawn(self, self._plan, group="plan", exclusive=True)

    async def _plan(self) -> None:
        former = self.plan
        try:
            service = self._service = await self.cockpit.actions.service()
            plan = await service.plan(self.request, tuple(self.approvals.values()))
        except (RefuseError, StoreError, TimeoutError) as error:
            self._trouble = str(error) or "no plan could be made in time"
        else:
            marked = former is not None and bool(self._notice)
            self._changed = changes(former, plan) if former and marked else frozenset()
            if former is not None and self._notice:
                self._notice += await meanwhile(self.cockpit, former)
            self.plan = plan
        self._planning = False
        self.lay_out(from_top=True)
        if self.asks:
            self.query_one(WordsLine).ask(self.plan.words if self.plan else "")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a fault in the planning instead of planning for ever."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            self._trouble = self.cockpit.report_fault(error)
            self._planning = False
            self.lay_out()

    def show(self) -> None:
        """Follow the run while the plan is open: what would be lost moves with it."""
        report = self.cockpit.report_of(self.request.run)
        shown, service = self.plan, self._service
        idle = self._running_action is None and not self._planning
        if shown is None or service is None or report is None or not idle:
            return
        now = service.measured(shown, report)
        if now != shown:
            self.plan = now
            self.lay_out()

    def lay_out(self, *, from_top: bool = False) -> None:
        """Show the plan, or the steps of what is under way."""
        if not self.is_mounted or not self.query(Paged):
            return
        page = self.query_one(Paged)
        sheet = self._sheet()
        page.show(sheet, from_top=from_top)
        rows = len(page.lines_for(self.inner)) + 2 + (1 + len(sheet.foot) if sheet.foot else 0)
        width, height = self.fit_box(rows)
        self.query_one(WordsLine).place(4, height - 1 - ASKS_BELOW, width - 8)

    def _sheet(self) -> Sheet:
        title = text((heading(self.request.action, self.request.run), STRONG))
        if self._running_action is not None:
            return self._progress(self._running_action, title)
        if self._trouble:
            why = partial(_marked, ("■ no plan: ", "bold $critical"), self._trouble)
            asked = self.unplanned and self.request.params
            leaves = "esc back to what was typed" if asked else "esc cancel"
            foot = [text((f"{leaves}: nothing was done", DIM))]
            return Sheet(why, title, foot=foot, line="$critical-line")
        if self.plan is None or self._planning:
            return Sheet(partial(_marked, ("● ", ACCENT), "checking the run …"), title)
        unfold = "" if self._unfolded else self.cockpit.keys.shown("plan_unfold")
        said = self.cockpit.keys.in_words
        checks = [each.model_copy(update={"text": said(each.text)}) for each in self.plan.checks]
        shown = self.plan.model_copy(update={"checks": tuple(checks)})
        body = partial(paint_plan, shown, changed=self._changed, notice=self._notice,
                       root=self._root, unfold=unfold)  # fmt: skip
        line = "$critical-line" if self.plan.blocked else LINE
        return Sheet(body, title, self._note(self.plan), self._foot(self.plan), line)

    @property
    def _root(self) -> str | None:
        """The folder below which paths are shortened: the run's own."""
        report = self.cockpit.report_of(self.request.run)
        return None if report is None else str(report.spec.output_root or "") or None

    def _note(self, plan: Plan) -> Content:
        blocks = sum(check.stands_in_the_way for check in plan.checks)
        warns = sum(check.level is Level.WARN for check in plan.checks)
        passes = sum(check.level is Level.PASS for check in plan.checks)
        worded = self.inner >= NARROW
        counts = [
            text((f"{mark} {count}{f' {word}' * worded}  ", style))
            for mark, count, word, style in (
                ("■", blocks, "blocking", "bold $critical"),
                ("!", warns, "warnings" if warns > 1 else "warning", "$attention"),
                ("✓", passes, "passed", "$well"),
            )
            if count
        ]
        named = self._unfolded and self.inner >= 70
        return text(*counts, (f"plan {plan.plan_id}" if named else "", DIM))

    def _foot(self, plan: Plan) -> list[Content]:
        """Return the rows below the rule: the question, or why there is none."""
        if not self.asks:
            why = self.cockpit.actions.reading_only or "blocked: this cannot be run"
            more = self._more(plan)
            return [*self._rows(text((why, "$attention"))), *([more] if more.plain else [])]
        question = text(("Type  ", DIM), (plan.words, f"bold {ACCENT}"))
        typed = self.query_one(WordsLine).value
        hint = self._hint or difference(typed, plan.words) or "enter runs it"
        style = "$attention" if self._hint else "$well" if typed == plan.words else DIM
        below = row(text((f"  {hint}", style)), self._more(plan), self.inner - 4)
        return [*self._rows(question), text(("▸", ACCENT)), below]

    def _rows(self, left: Content) -> list[Content]:
        """Return what must be readable whole, and beside it how to leave if that fits."""
        room = self.inner - 4
        for leaves in (" cancel, nothing done", " cancel"):
            right = text(("esc", f"bold {ACCENT}"), (leaves, DIM))
            if left.cell_length + 2 + right.cell_length <= room:
                return [row(left, right, room, gap=2)]
        return wrapped(left, room, 4)

    def _more(self, plan: Plan) -> Content:
        """Return the other keys that do something here, and what."""
        found: list[tuple[str, str]] = []
        if plan.can_save_first:
            on_now = self.request.params.get(SAVE_FIRST) == "yes"
            said = "do not save first" if on_now else "save a checkpoint first"
            found.append(("save_first", said))
        if plan.can_cancel_next:
            on_now = self.request.params.get(SUCCESSORS) == "yes"
            found.append(
                ("successors", "leave the next one" if on_now else "cancel the next one too")
            )
        found += [(verb, f"{verb} first") for verb in self._remedies()]
        found += [("approve", "approve")] if _approvable(plan) else []
        shown = [(self.cockpit.keys.shown(f"plan_{name}"), said) for name, said in found]
        named = [(key.upper() if len(key) > 1 else key, said) for key, said in shown]
        return cut(Content("   ").join(map(paint_key, named)), 60)

    def _progress(self, running_action: RunningAction, title: Content) -> Sheet:
        result, done = running_action.result, tuple(running_action.steps)
        after = follows(running_action, self.cockpit.reports)
        body = partial(paint_steps, ActionProgress(done, result, follows=after, root=self._root))
        if result is None:
            note = text(("● under way", ACCENT))
            said = text(("esc close this page; the action continues", DIM))
            return Sheet(body, title, note, [said])
        bad = result.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
        line = "$critical-line" if bad else LINE
        return Sheet(body, title, foot=[text(("enter or esc close", DIM))], line=line)

    @on(Input.Changed)
    def _typed(self) -> None:
        if self.asks:
            self._hint = ""
            self.query_one(Paged).show(self._sheet())

    @on(WordsLine.Turned)
    def _turned(self, event: WordsLine.Turned) -> None:
        self.action_turn(event.pages)

    @on(WordsLine.Dropped)
    def _dropped(self, event: WordsLine.Dropped) -> None:
        self._say(event.why)

    def _say(self, why: str) -> None:
        self._hint = why
        self.query_one(Paged).show(self._sheet())

    @on(WordsLine.Entered)
    def _entered(self, event: WordsLine.Entered) -> None:
        plan = self.plan
        if not self.asks or plan is None:
            return
        if event.refusal:
            self._say(event.refusal)
        elif self.query_one(WordsLine).value == plan.words:
            self._planning = True
            self.query_one(WordsLine).hide()
            spawn(self, partial(self._hand_over, plan), group="plan", exclusive=True)

    async def _hand_over(self, plan: Plan) -> None:
        """Hand the action to the app; it lives there, whatever becomes of this screen."""
        service = await self.cockpit.actions.service()
        self._planning = False
        start, approvals = self.cockpit.actions.running_actions.start, self.approvals.values()
        self._watch(start(service, self.request, plan, plan.words, tuple(approvals)))

    def _watch(self, running_action: RunningAction) -> None:
        self._running_action = running_action
        self.query_one(WordsLine).hide()
        self._unwatch = running_action.watch(self._stepped)
        self.lay_out(from_top=True)

    def _stepped(self) -> None:
        running_action = self._running_action
        if running_action is None:
            return
        result = running_action.result
        if result is None or result.outcome is not Outcome.REFUSED or result.steps:
            self._over_at = Message().time
            self.lay_out(from_top=result is not None)
            return
        if self._unwatch is not None:
            self._unwatch()
        self._running_action = self._unwatch = None
        self.plan_again(f"nothing was done: {result.message}")  # what has changed is marked

    def action_plan_confirm(self) -> None:
        """Close, once the outcome could be read; the words are confirmed in their own line."""
        over = self._running_action is not None and self._running_action.result is not None
        if over and pressed_at(self) - self._over_at >= VISIBLE:
            self.dismiss(None)

    def action_plan_leave(self) -> None:
        """Leave; what is under way goes on."""
        if self._running_action is not None and self._running_action.result is None:
            self.cockpit.say(f"{self._running_action.title} continues; its key reopens it")
        self.dismiss(None)

    def action_plan_approve(self) -> None:
        """Let the first block that allows it pass, by name and with a reason."""
        if self.plan is None or self._running_action is not None or self._planning:
            return
        blocks, reading_only = _approvable(self.plan), self.cockpit.actions.reading_only
        if reading_only or not blocks:
            self._say(reading_only or "nothing to approve here")
            return
        operator, left = self.request.operator, len(blocks) - 1
        screen = ApproveScreen(self.cockpit, blocks[0], operator, left)
        self.app.push_screen(screen, partial(self._approved, screen))

    def _approved(self, screen: ApproveScreen, given: dict[str, str] | None) -> None:
        if given is not None:
            approval = screen.approval(given)
            self.approvals[approval.check] = approval
            self.plan_again()
        elif self.asks and self.plan is not None:
            self.query_one(WordsLine).ask(self.plan.words)

    def _remedies(self) -> dict[str, dict[str, str]]:
        """Return what the blocks name as their remedies, by verb, with the options of each."""
        blocks = self.plan.checks if self.plan is not None and self.plan.blocked else ()
        said = " ".join(each.text for each in blocks if each.stands_in_the_way)
        found = self.cockpit.keys.remedies(said)
        return {verb: options for verb, options in found.items() if verb in REMEDIES}

    def action_remedy(self, verb: str) -> None:
        """Plan what a block names as its remedy; afterwards plan this again."""
        options = self._remedies().get(verb)
        if options is None or self.begun or self._planning:
            self._say(f"no block here asks for a {verb}")
            return
        request = self.request.model_copy(update={"action": verb, "params": options})
        again = f"after the {verb}"
        remedy = PlanScreen(self.cockpit, request)
        self.app.push_screen(remedy, lambda _: self.plan_again(again if remedy.begun else ""))

    def action_plan_unfold(self) -> None:
        """Show what passes in full, or only named again."""
        if self.plan is not None and not self.begun:
            self._unfolded = not self._unfolded
            self.lay_out()

    def action_plan_save_first(self) -> None:
        """Ask for a checkpoint first, or not any more, and plan again."""
        able = self.plan is not None and self.plan.can_save_first
        self._turn_over(SAVE_FIRST, able, "this trainer cannot be asked to save first")

    def action_plan_successors(self) -> None:
        """Cancel what would start by itself too, or not any more, and plan again."""
        able = self.plan is not None and self.plan.can_cancel_next
        self._turn_over(SUCCESSORS, able, "nothing starts by itself after it that can be cancelled")

    def _turn_over(self, option: str, able: bool, why_not: str) -> None:
        if self.plan is None or self._running_action is not None or self._planning:
            return
        if not able:
            self._say(why_not)
            return
        params = dict(self.request.params)
        if params.pop(option, None) is None:
            params[option] = "yes"
        self.request = self.request.model_copy(update={"params": params})
        self.plan_again()

    def action_step(self, steps: int) -> None:
        """Scroll by lines."""
        self.query_one(Paged).move(steps)

    def action_turn(self, pages: int) -> None:
        """Scroll by pages."""
        self.query_one(Paged).page(pages)


def _approvable(plan: Plan) -> list[Check]:
    return [check for check in plan.checks if check.stands_in_the_way and check.overridable]


def _marked(mark: tuple[str, str], words: str, width: int) -> list[Content]:
    return wrapped(text(mark, words), width, 20)
