"""Taking an alert: which one, until when, why. A form that stays open, and an undo (SPEC A-14)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.worker import Worker, WorkerState

from cockpit.actions.core.action import RefuseError
from cockpit.model.alert import Alert
from cockpit.model.observed import Phase
from cockpit.model.plan import Outcome, Request
from cockpit.model.report import RunReport
from cockpit.model.wording import age
from cockpit.store.store import StoreError
from screens.acting.form import REASON, FormScreen
from screens.acting.running import RunningAction
from screens.base import pressed_at, spawn
from screens.dialog import TOO_SOON
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.painting import facts, rows
from widgets.painting.line import STRONG, text
from widgets.painting.plan import Choice, FormField

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
