"""Taking an alert: which one, until when, why. One key, and an undo (SPEC A-14)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from cockpit.actions.core.action import RefuseError
from cockpit.model.alert import Alert
from cockpit.model.observed import Phase
from cockpit.model.plan import Outcome, Request
from cockpit.model.report import RunReport
from cockpit.model.wording import age, day_time
from cockpit.store.store import StoreError
from screens.acting.running import RunningAction
from screens.base import acted, pressed_at, spawn
from screens.dialog import TOO_SOON, DialogBox, ListDialog, TextLine
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.painting import facts
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    Part,
    chosen_row,
    cut,
    row,
    text,
    within,
    wrapped,
)
from widgets.scrolled import Paged, Sheet

SPANS: Final = ("15m", "1h", "8h", "until it closes")
NOW: Final = "now"
END: Final = "end"
"""The key of a run's end, beside those of its alerts."""
WHY_COLUMN: Final = 12
WRITING: Final = "enter keep the reason, then enter acknowledges"
CLOSED: Final = "the selected alert has closed: look again"


class AckScreen(ListDialog[None]):
    """Lists the open alerts; Enter takes the selected one, ``u`` lets it ring again."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("ack")
    DEFAULT_CSS = """
    AckScreen TextLine { display: none; }
    AckScreen TextLine.-asked { display: block; }
    """

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__()
        self.cockpit = cockpit
        self._run = run
        self._span = len(SPANS) - 1
        self._notice = ""
        self._taken: set[str] = set()
        self._listed: list[str] = []

    @property
    def count(self) -> int:
        """How many can be chosen: the alerts, and the end of the run."""
        return len(self._listed)

    def compose(self) -> ComposeResult:
        """Lay out the list, and the line for the reason."""
        with DialogBox():
            yield Paged()
            yield TextLine()

    async def on_key(self, event: events.Key) -> None:
        """Take keys in their order; an Enter from before the list could be read is dropped."""
        if self.unread(event.time) and event.key in self.cockpit.keys.of("ack_take"):
            event.stop()
            event.prevent_default()
            self._show_text(TOO_SOON)
        elif self.focused is None:
            await acted(self, event)

    def show(self) -> None:
        """Show the alerts as they are by now; called for news."""
        self.lay_out()

    @property
    def report(self) -> RunReport | None:
        """Return the newest report of the run."""
        return next((each for each in self.cockpit.reports if each.name == self._run), None)

    def _keys_open(self) -> list[str]:
        report = self.report
        if report is None:
            return []
        return [*(each.key for each in report.alerts), *([END] if end_words(report) else [])]

    def lay_out(self) -> None:
        """Show the alerts as they are by now."""
        report = self.report
        if not self.is_mounted or not self.query(TextLine):
            return
        self._hold()
        if report is None:
            self._show_gone()
            return
        typing = self.query_one(TextLine)
        taking = Taking(
            report.alerts, end_words(report), self.at, SPANS, self._span,
            " " if typing.has_class("-asked") else typing.value,
        )  # fmt: skip
        body = partial(paint_taking, taking, self.cockpit.now())
        title = text((f"acknowledge · {self._run}", STRONG))
        rows, height = self.show_sheet(Sheet(body, title, foot=self._foot()), 5)
        typing.place(2 + WHY_COLUMN, min(rows, height - 5), self.inner - WHY_COLUMN - 4)

    def _show_gone(self) -> None:
        """Say that the run has left the run file while this stood open."""
        self.query_one(TextLine).remove_class("-asked")
        said = f"{self._run} is no longer in the run file: nothing to acknowledge here"
        title, foot = text((f"acknowledge · {self._run}", STRONG)), [text(("esc close", DIM))]
        self.show_sheet(Sheet(partial(_gone, said), title, foot=foot))

    def _hold(self) -> None:
        """Keep what is selected selected, also when other alerts open or close meanwhile."""
        keys, chosen = self._keys_open(), self._key()
        if keys != self._listed and chosen in keys:
            self.at = keys.index(chosen)
        elif chosen is not None and chosen not in keys:
            self._notice = CLOSED
            self.shown_now()
        self._listed = keys
        self.at = max(0, min(self.at, len(keys) - 1))

    def _foot(self) -> list[Content]:
        said = text((self._notice, "$attention")) if self._notice else text(
            ("an acknowledged alert stays open but is quiet", DIM))  # fmt: skip
        writes = self.query_one(TextLine).has_class("-asked")
        keys = (
            WRITING if writes else "enter acknowledge   ←→ snooze   w reason   u undo   esc close"
        )
        return [cut(said, self.inner - 4), text((keys, DIM))]

    def action_quiet(self, steps: int) -> None:
        """Be quiet for longer, or for less long."""
        self._span = (self._span + steps) % len(SPANS)
        self.lay_out()

    def action_ack_why(self) -> None:
        """Ask why."""
        line = self.query_one(TextLine)
        line.add_class("-asked")
        line.focus(scroll_visible=False)
        self.lay_out()

    @on(Input.Submitted)
    def _said_why(self) -> None:
        line = self.query_one(TextLine)
        line.remove_class("-asked")
        line.blur()
        self.lay_out()

    def action_ack_leave(self) -> None:
        """Leave the reason's line, else the screen."""
        if self.query_one(TextLine).has_class("-asked"):
            self._said_why()
        else:
            self.dismiss(None)

    def action_ack_take(self) -> None:
        """Take the selected alert, unless it was pressed before the list could be read."""
        if self.unread(pressed_at(self)):
            self._show_text(TOO_SOON)
            return
        until = "" if self._span == len(SPANS) - 1 else SPANS[self._span]
        self._order(until, self.query_one(TextLine).value.strip())

    def action_ack_undo(self) -> None:
        """Let the selected alert ring again: it was taken until now."""
        alerts = self.report.alerts if self.report is not None else ()
        taken = {each.key for each in alerts if each.acknowledged is not None} | self._taken
        if self._key() == END or self._key() not in taken:
            self._show_text(
                "that one cannot be undone" if self._key() == END else "it is not acknowledged"
            )
        else:
            self._order(NOW, "undone")

    def _key(self) -> str | None:
        """Return the selected item of the list on the screen."""
        return self._listed[self.at] if 0 <= self.at < len(self._listed) else None

    def _order(self, until: str, why: str) -> None:
        key = self._key()
        if key is None:
            self._show_text("nothing to acknowledge")
            return
        operator = self.cockpit.watch_state.operator
        params = {"key": key, "by": operator}
        params |= {"until": until} if until and key != END else {}
        params |= {"reason": why} if why else {}
        request = Request(action="ack", run=self._run, operator=operator, params=params)
        spawn(self, partial(self._do, request))

    async def _do(self, request: Request) -> None:
        """Plan and act at once: it can be undone, so nothing has to be typed."""
        self._show_text("acknowledging …")
        try:
            service = await self.cockpit.actions.service()
            plan = await service.plan(request)
        except (RefuseError, StoreError, TimeoutError) as error:
            self._show_text(str(error) or "no answer in time")
            return
        if plan.blocked:
            self._show_text(
                "; ".join(check.text for check in plan.checks if check.stands_in_the_way)
            )
            return
        running_action = self.cockpit.actions.running_actions.start(
            service, request, plan, plan.words, ()
        )
        running_action.watch(partial(self._ended, running_action))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a fault in one line."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            self._show_text(self.cockpit.report_fault(error))

    def _ended(self, running_action: RunningAction) -> None:
        result = running_action.result
        if result is None or not self.is_mounted:
            return
        done = result.outcome is Outcome.DONE
        params = running_action.request.params
        undone = params.get("until") == NOW
        if done:
            self._taken ^= {params["key"]} if (params["key"] in self._taken) == undone else set()
        back = "" if params["key"] == END else " (u to undo)"
        taken = f"acknowledged by {running_action.request.operator}{back}"
        text = "it alerts again" if undone else taken
        self._show_text(text if done else f"{result.outcome.value}: {result.message}")
        self.cockpit.look_again(self._run)

    def _show_text(self, words: str) -> None:
        self._notice = words
        self.lay_out()


def _gone(notice: str, width: int) -> list[Content]:
    return wrapped(text((notice, "$attention")), width, 4)


def end_words(report: RunReport) -> str:
    """Return how the run's job ended, or nothing while it has not."""
    job = report.facets.job.value
    if job is None or not job.phase.terminal:
        return ""
    if job.phase is Phase.SUCCEEDED:
        return job.phase.value
    if job.exit_code is not None:
        return f"{job.phase.value}, exit code {job.exit_code}"
    return job.phase.value + ("" if job.state == job.phase.value else f" ({job.state})")


class Taking(NamedTuple):
    """What can be taken: alerts, and last the run's end if ``end`` says how it ended."""

    alerts: Sequence[Alert]
    end: str
    at: int
    spans: Sequence[str]
    span: int
    why: str


def paint_taking(taking: Taking, now: float, width: int) -> list[Content]:
    """Return the list, then for how long and why."""
    lines: list[Content] = []
    for place, alert in enumerate(taking.alerts):
        lines += _alert(alert, now, width, place == taking.at)
    if taking.end:
        chosen = taking.at == len(taking.alerts)
        lines.append(
            chosen_row(text("◆ ", (f"the run's end: {taking.end}", STRONG)), width, chosen)
        )
    if not lines:
        lines.append(text(("nothing is open, and no end of the run is known", DIM)))
    spans: list[Part] = []
    for place, each in enumerate(taking.spans):
        spans += [(f" {each} ", f"bold {ACCENT} on $cursor" if place == taking.span else DIM), " "]
    why = text(("reason    ", DIM), taking.why or ("w writes one (optional)", DIM))
    return within([*lines, EMPTY, text(("snooze   ", DIM), *spans), why], width)


def _alert(alert: Alert, now: float, width: int, chosen: bool) -> list[Content]:
    mark, style = facts.alert_mark(alert)
    left = text((f"{mark} ", style), (alert.title, STRONG))
    since = text((f"{age(now - alert.since)}  {alert.id}", DIM))
    lines = [chosen_row(row(left, since, width - 2), width, chosen)]
    taken = alert.acknowledged
    if taken is not None:
        until = f", snoozed until {day_time(taken.until, now)}" if taken.until is not None else ""
        said = f"acknowledged by {taken.by} {day_time(taken.at, now)}{until}"
        lines += [text("    ", each) for each in wrapped(text((said, DIM)), width - 4, 2)]
    return lines
