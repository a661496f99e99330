"""Taking an alert: which one, until when, why. One key, and an undo (SPEC A-14)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

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
from widgets.scrolled import Paged, Row

SPANS: Final = ("15m", "1h", "8h", "until it closes")
NOW: Final = "now"
END: Final = "end"
"""The key of a run's end, beside those of its alerts."""
WHY_COLUMN: Final = 12
WRITING: Final = "enter keep the reason, then enter acknowledges"
CLOSED: Final = "the selected alert has closed: look again"


class AckScreen(ListDialog[None]):
    """Lists the open alerts; Enter takes the selected one, ``u`` lets it ring again."""

    SCOPE = "ack"
    BINDINGS: ClassVar[list[BindingType]] = bindings("ack", "list")
    DEFAULT_CSS = """
    AckScreen TextLine { display: none; }
    AckScreen TextLine.-asked { display: block; }
    """

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__()
        self.heading = f"acknowledge · {run}"
        self.cockpit = cockpit
        self._run = run
        self._span = len(SPANS) - 1
        self._notice = ""
        self._taken: set[str] = set()

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

    @property
    def report(self) -> RunReport | None:
        """Return the newest report of the run."""
        return next((each for each in self.cockpit.reports if each.name == self._run), None)

    def instead(self, keys: Sequence[str], former: Sequence[str]) -> str:
        """Say that the chosen alert has closed; what is chosen instead must be read first."""
        if self.chosen:
            self._notice = CLOSED
            self.shown_now()
        return super().instead(keys, former)

    def rows(self) -> list[Row]:
        """Return the open alerts, the end of the run, then for how long and why."""
        report, now, line = self.report, self.cockpit.now(), self.query_one(TextLine)
        if report is None:
            line.remove_class("-asked")
            said = f"{self._run} is no longer in the run file: nothing to acknowledge here"
            return [Row("", lambda width, _: wrapped(text((said, "$attention")), width, 4))]
        found = [Row(each.key, partial(paint_alert, each, now)) for each in report.alerts]
        if end := end_words(report):
            found.append(Row(END, partial(paint_end, end)))
        why = " " if line.has_class("-asked") else line.value
        none = not found
        return [*found, Row("", lambda width, _: paint_taking(none, self._span, why, width))]

    def placed(self, rows: int, height: int) -> None:
        """Place the line for the reason on the last row."""
        line = self.query_one(TextLine)
        line.place(2 + WHY_COLUMN, min(rows, height - 5), self.inner - WHY_COLUMN - 4)

    def foot(self) -> list[Content]:
        """Return what was done or refused, and the keys."""
        said = self._notice or "acknowledged alerts stay open but do not notify"
        notice = text((said, "$attention" if self._notice else DIM))
        writes = self.query_one(TextLine).has_class("-asked")
        keys = [text((WRITING, DIM))] if writes else super().foot()
        return [cut(notice, self.inner - 4), *keys]

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

    def action_list_back(self) -> None:
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
        if self.chosen == END or self.chosen not in taken:
            self._show_text(
                "that one cannot be undone" if self.chosen == END else "it is not acknowledged"
            )
        else:
            self._order(NOW, "undone")

    def _order(self, until: str, why: str) -> None:
        key = self.chosen
        if not key:
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


def paint_end(end: str, width: int, chosen: bool) -> list[Content]:
    """Return the row of a run's end."""
    return [chosen_row(text("◆ ", (f"run ended: {end}", STRONG)), width, chosen)]


def paint_taking(none: bool, span: int, why: str, width: int) -> list[Content]:
    """Return for how long an alert is quiet, and why; that there is nothing to take."""
    lines = [text(("no open alerts, and no known end of the run", DIM))] if none else []
    spans: list[Part] = []
    for place, each in enumerate(SPANS):
        spans += [(f" {each} ", f"bold {ACCENT} on $cursor" if place == span else DIM), " "]
    reason = text(("reason    ", DIM), why or ("w writes one (optional)", DIM))
    return within([*lines, EMPTY, text(("snooze   ", DIM), *spans), reason], width)


def paint_alert(alert: Alert, now: float, width: int, chosen: bool) -> list[Content]:
    """Return an alert's row, and below it who has taken it."""
    mark, style = facts.alert_mark(alert)
    left = text((f"{mark} ", style), (alert.title, STRONG))
    since = text((age(now - alert.since), DIM))
    lines = [chosen_row(row(left, since, width - 2), width, chosen)]
    taken = alert.acknowledged
    if taken is not None:
        until = f", snoozed until {day_time(taken.until, now)}" if taken.until is not None else ""
        said = f"acknowledged by {taken.by} {day_time(taken.at, now)}{until}"
        lines += [text("    ", each) for each in wrapped(text((said, DIM)), width - 4, 2)]
    return lines
