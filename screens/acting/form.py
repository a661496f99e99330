"""Forms over the screen: what an action needs, who lets a block pass, taking an alert (SPEC A)."""

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
from cockpit.model.plan import Approval, Check, Outcome, Request
from cockpit.model.report import RunReport
from cockpit.model.wording import age
from cockpit.store.store import StoreError
from screens.acting.running import RunningAction
from screens.base import acted, pressed_at, spawn, typed_into
from screens.dialog import TOO_SOON, Dialog, DialogBox, TextLine
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import paint_key
from widgets.painting import facts, rows
from widgets.painting.line import DIM, STRONG, text, that_fit
from widgets.painting.plan import (
    FIELD_LABEL,
    Choice,
    FormField,
    FormState,
    paint_form,
    place_of,
    rows_of,
)
from widgets.scrolled import Paged, Sheet

BY: Final = "by"
REASON: Final = "reason"


class FormScreen(Dialog[dict[str, str] | None]):
    """Returns the values by name (empty ones left out), or ``None``."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("form")
    SCOPE: ClassVar[str] = "form"
    """Whose keys stand at the foot beside those of every form."""
    LEAVE: ClassVar[str] = "cancel"

    def __init__(
        self,
        cockpit: Cockpit,
        heading: str,
        fields: Sequence[FormField],
        intro: Sequence[Content] = (),
        verb: str = "shows the plan",
    ) -> None:
        super().__init__()
        self.cockpit = cockpit
        self._heading = heading
        self.fields = tuple(fields)
        self.values = {
            each.name: each.value or (each.choices[0].value if each.choices else "")
            for each in fields
        }
        self._intro = tuple(intro)
        self._verb = verb
        self._at = next(
            (n for n, each in enumerate(self.fields) if each.choices or not each.value), 0
        )
        self.notice = ""

    def compose(self) -> ComposeResult:
        """Lay out the page and a line for each value that is typed."""
        with DialogBox():
            yield Paged()
            for field in self.fields:
                if not field.choices:
                    yield TextLine(field.value, name=field.name)

    def on_mount(self) -> None:
        """Begin with the first field that is not known."""
        self.lay_out()
        self._focus()
        self.call_after_refresh(self.shown_now)

    @property
    def state(self) -> FormState:
        """The form as it stands."""
        return FormState(self._intro, self.fields, dict(self.values), self._at, self.notice)

    def _text_line(self, field: FormField) -> TextLine | None:
        return next((line for line in self.query(TextLine) if line.name == field.name), None)

    def _focus(self) -> None:
        self.set_focus(self._text_line(self.fields[self._at]), scroll_visible=False)

    def lay_out(self) -> None:
        """Show the form as it stands."""
        if not self.is_mounted or not self.query(Paged):
            return
        state = self.state
        heading = text((self._heading, STRONG))
        self.show_sheet(Sheet(partial(paint_form, state), heading, foot=self._foot()), 5)
        width = self.inner
        for field, place in zip(self.fields, rows_of(state, width - 4), strict=True):
            line = self._text_line(field)
            if line is not None:
                line.place(2 + FIELD_LABEL, 1 + place, width - FIELD_LABEL - 4)

    def _foot(self) -> list[Content]:
        field = self.fields[self._at]
        need = " (required)" if field.required else "" if field.choices else " (optional)"
        said = (
            text((self.notice, "$attention")) if self.notice else text((f"{field.help}{need}", DIM))
        )
        picks = [("↑↓", "pick")] if field.choices else []
        own = self.cockpit.keys.footer(self.SCOPE)
        keys = [("enter", self._verb), ("esc", self.LEAVE), *own, ("tab", "next"), *picks]
        return [said, that_fit(map(paint_key, keys), self.inner - 4, "   ")]

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if event.input.name is not None:
            self.values[event.input.name] = event.value
            self.notice = ""
            self.lay_out()

    def typed(self) -> dict[str, str]:
        """Return what stands in the fields, also where their events have not arrived yet."""
        return self.values | {line.name: line.value for line in self.query(TextLine) if line.name}

    async def on_key(self, event: events.Key) -> None:
        """Take keys in their order: what comes behind a tab in one burst belongs to its line."""
        line = self.focused
        if not (isinstance(line, TextLine) and typed_into(line, event)):
            await acted(self, event)

    @on(Input.Submitted)
    def _entered(self) -> None:
        """Enter in a line goes on, as everywhere in the form."""
        self.action_form_accept()

    def action_form_accept(self) -> None:
        """Return the values, or go to the first one that is missing."""
        self.values = self.typed()
        missing = [
            place for place, field in enumerate(self.fields)
            if field.required and not self.values[field.name].strip()
        ]  # fmt: skip
        if missing:
            self.go_to(missing[0], f"{self.fields[missing[0]].label} is required")
            return
        given = {name: value.strip() for name, value in self.values.items() if value.strip()}
        self.dismiss(given)

    def action_form_leave(self) -> None:
        """Leave, nothing done."""
        self.values = self.typed()
        self.dismiss(None)

    def action_step(self, steps: int) -> None:
        """Go to another field."""
        self.go_to((self._at + steps) % len(self.fields))

    def go_to(self, place: int, notice: str = "") -> None:
        """Go to a field, and say something below the form."""
        self._at, self.notice = place, notice
        self._focus()
        self.lay_out()

    def action_pick(self, steps: int) -> None:
        """Pick another choice of a list; else go to another field."""
        if not self.pick(steps):
            self.action_step(steps)

    def pick(self, steps: int) -> bool:
        """Pick another choice of the focused list; return whether there was one."""
        field = self.fields[self._at]
        place = place_of(field, self.values) + steps
        if not field.choices or not 0 <= place < len(field.choices):
            return False
        self.values[field.name] = field.choices[place].value
        self.lay_out()
        return True


class ApproveScreen(FormScreen):
    """Asks who lets one check pass and why; ``approval`` makes one of the answer."""

    def __init__(self, cockpit: Cockpit, check: Check, operator: str, left: int = 0) -> None:
        self._check = check
        more = f" · {left} more after this one" if left else ""
        intro: list[Content] = [
            text(("■ ", "bold $critical"), (check.text, STRONG)),
            text((f"[{check.basis.value}]{more}", DIM)),
        ]
        fields = (
            FormField(BY, "approved by", "approved by (name)", True, value=operator),
            FormField(REASON, "reason", "reason (goes into the logbook and the issue)", True),
        )
        super().__init__(cockpit, "approve this check", fields, intro, verb="approves")

    def approval(self, given: dict[str, str]) -> Approval:
        """Return the approval that the values make."""
        return Approval(check=self._check.id, by=given[BY], reason=given[REASON])


KEY: Final = "key"
UNTIL: Final = "until"
NOW: Final = "now"
END: Final = "end"
"""The key of a run's end, beside those of its alerts."""
HELP: Final = "acknowledged alerts stay open but do not notify"
CLOSED: Final = "the selected alert has closed: look again"
SNOOZE: Final = FormField(
    UNTIL, "snooze", "how long it does not notify",
    choices=tuple(Choice(each, each or "until it closes") for each in ("", "15m", "1h", "8h")),
)  # fmt: skip
WHY: Final = FormField(REASON, "reason", "why; everybody sees it")


class AckScreen(FormScreen):
    """Lists the open alerts; Enter acknowledges the selected one, ``u`` undoes that."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("form", "ack")
    SCOPE = "ack"
    LEAVE = "back"

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit, f"acknowledge · {run}", (SNOOZE, WHY), verb="acknowledges")
        self._run = run
        self._taken: set[str] = set()
        self.fields = (self._alerts(), *self.fields)
        self.values[KEY] = self.fields[0].choices[0].value

    @property
    def report(self) -> RunReport | None:
        """Return the newest report of the run."""
        return self.cockpit.report_of(self._run)

    def _alerts(self) -> FormField:
        """Return the field of what can be acknowledged: the open alerts, the end of the run."""
        report, found = self.report, list[Choice]()
        if report is not None:
            found = [alert_choice(each, self.cockpit.now()) for each in report.alerts]
            if end := end_words(report):
                found.append(Choice(END, text("◆ ", (f"run ended: {end}", STRONG))))
        gone = f"{self._run} is no longer in the run file: nothing to acknowledge here"
        none = gone if report is None else "no open alerts, and no known end of the run"
        return FormField(KEY, "alert", HELP, choices=tuple(found or [Choice("", none)]))

    def show(self) -> None:
        """Follow the run; where the chosen alert has closed, another one must be read first."""
        self.fields = (self._alerts(), *self.fields[1:])
        keys = [each.value for each in self.fields[0].choices]
        chosen = self.values[KEY]
        if chosen not in keys:
            self.values[KEY] = keys[0]
            self.notice = CLOSED if chosen else ""
            self.shown_now()
        self.lay_out()

    def action_form_accept(self) -> None:
        """Acknowledge the selected alert, unless that was pressed before the form could be read."""
        if self.unread(pressed_at(self)):
            self._say(TOO_SOON)
            return
        self.values = self.typed()
        until = {} if self.values[KEY] == END else {UNTIL: self.values[UNTIL]}
        self._order(**until, reason=self.values[REASON].strip())

    def action_ack_undo(self) -> None:
        """Let the selected alert ring again: it was taken until now."""
        key, alerts = self.values[KEY], self.report.alerts if self.report is not None else ()
        if key == END:
            self._say("that one cannot be undone")
        elif key in {each.key for each in alerts if each.acknowledged is not None} | self._taken:
            self._order(until=NOW, reason="undone")
        else:
            self._say("it is not acknowledged")

    def _order(self, **params: str) -> None:
        key, operator = self.values[KEY], self.cockpit.watch_state.operator
        if not key:
            self._say("nothing to acknowledge")
            return
        given = {name: value for name, value in params.items() if value}
        request = Request(action="ack", run=self._run, operator=operator,
                          params={"key": key, "by": operator, **given})  # fmt: skip
        self.go_to(0)  # from where u undoes
        spawn(self, partial(self._do, request))

    async def _do(self, request: Request) -> None:
        """Plan and act at once: it can be undone, so nothing has to be typed."""
        self._say("acknowledging …")
        try:
            service = await self.cockpit.actions.service()
            plan = await service.plan(request)
        except (RefuseError, StoreError, TimeoutError) as error:
            self._say(str(error) or "no answer in time")
            return
        if plan.blocked:
            blocks = (check.text for check in plan.checks if check.stands_in_the_way)
            self._say("; ".join(blocks))
            return
        started = self.cockpit.actions.running_actions
        running_action = started.start(service, request, plan, plan.words, ())
        running_action.watch(partial(self._ended, running_action))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a fault in one line."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            self._say(self.cockpit.report_fault(error))

    def _ended(self, running_action: RunningAction) -> None:
        result = running_action.result
        if result is None or not self.is_mounted:
            return
        params, done = running_action.request.params, result.outcome is Outcome.DONE
        undone = params.get(UNTIL) == NOW
        if done:
            self._taken = self._taken - {params["key"]} if undone else self._taken | {params["key"]}
        back = "" if params["key"] == END else " (u to undo)"
        taken = f"acknowledged by {running_action.request.operator}{back}"
        said = "it alerts again" if undone else taken
        self._say(said if done else f"{result.outcome.value}: {result.message}")
        self.cockpit.look_again(self._run)

    def _say(self, words: str) -> None:
        self.notice = words
        self.lay_out()


def alert_choice(alert: Alert, now: float) -> Choice:
    """Return an open alert: its title, for how long it is open, who has taken it."""
    mark, style = facts.alert_mark(alert)
    taken = rows.acknowledged(alert, now)
    note = " · ".join(filter(None, (age(now - alert.since), taken)))
    return Choice(alert.key, text((f"{mark} ", style), (alert.title, STRONG)), note)


def end_words(report: RunReport) -> str:
    """Return how the run's job ended, or nothing while it has not."""
    job = report.facets.job.value
    if job is None or not job.phase.terminal:
        return ""
    said = job.phase.value
    if job.phase is Phase.SUCCEEDED:
        return said
    state = "" if job.state == said else f" ({job.state})"
    return said + (state if job.exit_code is None else f", exit code {job.exit_code}")
