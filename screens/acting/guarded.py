"""The app's part in guarded actions: offers them, starts them, and tells how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.app import App

from cockpit.model.acts import Outcome, Records, means
from cockpit.model.report import RunReport
from cockpit.runtime.offload import offload
from screens.acting.running import (
    Planning,
    RunningAction,
    RunningActions,
    agent_news,
    to_veto,
    vetoed,
)
from screens.base import spawn
from screens.ports import Cockpit

if TYPE_CHECKING:
    from cockpit.actions.core.open_plans import OpenPlans
    from cockpit.actions.core.recovery import InterruptedAction
    from cockpit.actions.core.service import ActionService
    from cockpit.actions.telling.log_entry import Logbooks
    from cockpit.model.plan import Request, Result
    from cockpit.model.records import PointMark, Unfinished
    from screens.acting.form import FormScreen
    from screens.acting.plan import PlanScreen

MAKE_WITHIN: Final = 10.0
ASK_WITHIN: Final = 5.0
LOOK_FOR_INTERRUPTED: Final = 0.5
"""Seconds after the start at which the journal is asked: never before the first frame."""
LOOK_AGAIN: Final = 15.0
"""Seconds after which it is looked whether somebody else has ended what was interrupted."""
NAMED: Final = 2
"""Interrupted actions that are named in the head; the journal has all."""
FOLLOW_FOR: Final = 10.0
FOLLOW_ROUNDS: Final = 30
"""How often, and for how many seconds each, the push of an action's records is looked at."""
NO_SERVICE: Final = "guarded actions are not available here"
MakeService = Callable[[str], "ActionService"]
"""Makes the service for an operator; may import much, so it is called in a thread."""


class Means(NamedTuple):
    """What actions are done with; each is made, or asked, when it is first needed."""

    service: MakeService | None = None
    """Makes what plans actions."""
    books: Callable[[], Logbooks] | None = None
    """Makes what writes logbooks."""
    version: Callable[[], int] | None = None
    """Changes whenever another process has written to the store; may block."""
    plans: OpenPlans | None = None
    left: Callable[[], bool] | None = None
    """Whether a former cockpit may have left anything; may block, and imports little."""


class GuardedActions:
    """What a person may do to a run from the app that owns this, and what is under way.

    ``app`` shows the screens and is the ``cockpit`` that they ask.
    """

    def __init__(
        self,
        app: App[str],
        cockpit: Cockpit,
        means: Means,
        *,
        present: bool = False,
    ) -> None:
        self._app = app
        self._cockpit = cockpit
        self._means = means
        self._present = present
        self._service: ActionService | None = None
        self._making = asyncio.Lock()
        self._books: Logbooks | None = None
        self._typed: dict[tuple[str, str], dict[str, str]] = {}
        self._marks: dict[str, dict[str, PointMark]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: set[asyncio.Task[None]] = set()
        self._asked_to_leave = False
        self.running_actions = RunningActions(self._deed_ended, cockpit.report_fault)
        self.interrupted: tuple[InterruptedAction, ...] = ()
        self.planning = Planning(means.plans)
        self._left: list[str] = []
        self._stood: object | None = None

    @property
    def reading_only(self) -> str:
        """Why nothing may be changed here, or nothing."""
        if self._present:
            return "presenting, read-only: it offers no actions"
        if self._cockpit.watch_state.read_only:
            return "read-only: it offers no actions"
        return "" if self._means.service is not None else NO_SERVICE

    async def service(self) -> ActionService:
        """Return the service, made when it is first asked for; raises ``TimeoutError``."""
        if self._means.service is None:
            raise TimeoutError(NO_SERVICE)
        async with self._making:
            if self._service is None:
                operator = self._cockpit.watch_state.operator
                self._service = await offload(self._means.service, operator, deadline=MAKE_WITHIN)
            return self._service

    async def _journal_stands(self) -> object | None:
        """Return what changes whenever the journal may have; ``None`` if that is not known."""
        from cockpit.store.store import StoreError

        if self._means.version is None:
            return None
        try:
            version = await offload(self._means.version, deadline=ASK_WITHIN)
        except (StoreError, TimeoutError):
            return None
        return version, self.running_actions.changes

    def act(self, verb: str, run: str | None = None) -> None:
        """Begin an action on a run, show the one that is under way, or say why not."""
        from screens.acting.offers import offers

        report = self._cockpit.report_of(run)
        found = offers(report, self._cockpit.keys, self.reading_only)
        offer = next(each for each in found if each.verb == verb)
        if offer.why_not or report is None:
            self._cockpit.say(f"{offer.title}: {offer.why_not}")
        elif not self._cockpit.watch_state.operator:
            self._cockpit.say("who are you? still looking up the operator's name")
        elif verb == "ack":
            from screens.acting.form import AckScreen

            self._app.push_screen(AckScreen(self._cockpit, report.name))
        elif verb != "log":
            self._plan(verb, report)
        elif (books := self._logbooks()) is None:
            self._cockpit.say("log entry: logbooks cannot be written here")
        else:
            from screens.acting.editor import EditorScreen

            if not isinstance(self._app.screen, EditorScreen):
                self._app.push_screen(EditorScreen(self._cockpit, books, report))

    def _logbooks(self) -> Logbooks | None:
        if self._books is None and self._means.books is not None:
            self._books = self._means.books()
        return self._books

    async def unfinished(self, report: RunReport) -> Unfinished | None:
        """Return what is known of an entry that was begun and not saved, if there is one."""
        books = self._logbooks()
        return None if books is None else await books.unfinished(report)

    def _plan(self, verb: str, report: RunReport) -> None:
        from cockpit.model.plan import Request
        from screens.acting.form import FormScreen
        from screens.acting.offers import again_with, fields_of, heading
        from screens.acting.plan import PlanScreen

        operator = self._cockpit.watch_state.operator
        request = Request(action=verb, run=report.name, operator=operator)
        running_action = self.running_actions.of(report.name)
        if running_action is not None:
            self._app.push_screen(PlanScreen(self._cockpit, running_action.request, running_action))
            return
        spawn(self._app, partial(self.planning.begin, request, self._cockpit.now()))
        fields = fields_of(verb, report)
        if not fields:
            page = PlanScreen(self._cockpit, request)
            self._app.push_screen(page, lambda _: self.planning.end(request))
            return
        again = again_with(fields, self._typed.get((verb, report.name), {}))
        form = FormScreen(self._cockpit, heading(verb, report.name), again)
        self._app.push_screen(form, partial(self._filled, form, request))

    def _filled(self, form: FormScreen, request: Request, given: dict[str, str] | None) -> None:
        """Plan what was filled in; until it has begun, the form keeps what was typed."""
        from screens.acting.plan import PlanScreen

        self._typed[request.action, request.run] = form.values
        if given is not None:
            page = PlanScreen(self._cockpit, request.model_copy(update={"params": given}))
            self._app.push_screen(page, partial(self._plan_left, page))
        else:
            self.planning.end(request)

    def _plan_left(self, page: PlanScreen, _: None) -> None:
        """Forget what was typed if it has begun; go back to it if no plan could be made of it."""
        verb, run = page.request.action, page.request.run
        self.planning.end(page.request)
        report = self._cockpit.report_of(run)
        if page.begun:
            self._typed.pop((verb, run), None)
            self._marks.pop(run if verb == "handoff" else "", None)
        elif page.unplanned and report is not None:
            self._plan(verb, report)

    def show(self, what: str) -> None:
        """Show a page of the selected run: ``journal``, ``points`` or one of ``PAGES``."""
        report = self._cockpit.report_of(None)
        if what == "journal":
            self._show_journal(report)
        elif report is None:
            self._cockpit.say("no run is selected")
        elif what == "page" and self._means.service is None:
            self._cockpit.say(NO_SERVICE)
        elif what == "points":
            from screens.acting.journal import PointsScreen

            marks = self._marks.setdefault(report.name, {})
            screen, run = PointsScreen(self._cockpit, report.name, marks), report.name

            def hand_off(note: str | None) -> None:
                """Begin a handoff with the note that its open points have made, if it goes on."""
                if note is not None:
                    self._typed.setdefault(("handoff", run), {})["note"] = note
                    self.act("handoff", run)

            self._app.push_screen(screen, hand_off)
        else:
            from screens.sheet import PAGES

            self._app.push_screen(PAGES[what](self._cockpit, report.name))

    def _show_journal(self, report: RunReport | None) -> None:
        """Show the journal of the interrupted runs and of the selected one."""
        runs = list(dict.fromkeys(each.entry.plan.run for each in self.interrupted))
        if report is not None and report.name not in runs:
            runs.append(report.name)
        if self._means.service is None:
            self._cockpit.say(NO_SERVICE)
        elif not runs:
            self._cockpit.say("no run is selected")
        else:
            from screens.acting.journal import JournalScreen

            if not isinstance(self._app.screen, JournalScreen):
                self._app.push_screen(JournalScreen(self._cockpit, runs, self.interrupted))

    def look_for_interrupted(self) -> None:
        """Ask the journal, beside everything else, what crashed cockpits have left."""
        if self._means.service is not None:
            self._app.set_timer(LOOK_FOR_INTERRUPTED, partial(spawn, self._app, self._interrupted))
            self._app.set_interval(LOOK_AGAIN, self._look_again)

    async def _interrupted(self) -> None:
        """Learn what was interrupted, and what was only being planned; nothing opens by itself."""
        from cockpit.actions.core.action import RefuseError
        from cockpit.store.store import StoreError

        found: list[InterruptedAction] = []
        try:
            # Making a service loads all that acts, which a window that only looks does without.
            ask = None if self._service is not None else self._means.left
            if ask is not None and not await offload(ask, deadline=ASK_WITHIN):
                return
            service = await self.service()
            for run in self._cockpit.reports:
                found += await service.interrupted(run.name)
            if not self.reading_only:
                self._left += await self.planning.left(service, self._cockpit.now())
        except (RefuseError, StoreError, TimeoutError) as error:
            self._cockpit.warn(f"cannot read the journal: {error}")
        self.interrupted = tuple(found)
        self._stood = await self._journal_stands()
        self._cockpit.show_news()

    def _look_again(self) -> None:
        if self.interrupted:
            spawn(self._app, self._ended_elsewhere, group="interrupted", exclusive=True)

    async def _ended_elsewhere(self) -> None:
        """Ask again what is interrupted if the journal has changed since it was asked."""
        stands = await self._journal_stands()
        if stands is None or stands != self._stood:
            await self._interrupted()

    def settled(self, runs: Collection[str], found: Iterable[InterruptedAction]) -> None:
        """Know what is interrupted by now on these runs: their journal was asked just now."""
        others = (each for each in self.interrupted if each.entry.plan.run not in runs)
        self.interrupted = (*others, *found)
        self._cockpit.show_news()

    @property
    def news(self) -> list[tuple[str, bool]]:
        """What the last cockpit left, a line each, and whether it is bad: for the head."""
        left = [each for each in self.interrupted if each.outcome is not None]
        names = list(dict.fromkeys(f"{each.entry.action} {each.entry.plan.run}" for each in left))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        said = f"interrupted: {', '.join(names[:NAMED])}{more}"
        keys = self._cockpit.keys
        shows = "" if self.reading_only else f" · {keys.shown('journal')} journal"
        planned = [(f"{line} · {keys.shown('clear')} seen", False) for line in self._left]
        return [*self.agents, *([(f"{said}{shows}", True)] if left else []), *planned]

    @property
    def agents(self) -> list[tuple[str, bool]]:
        """What agents are about, a line each, and whether it can be vetoed."""
        key = None if self.reading_only else self._cockpit.keys.shown("veto")
        return agent_news(self._cockpit.reports, self._cockpit.now(), key)

    def veto(self) -> None:
        """Veto what agents plan or wait to do: on the selected run, else where the only one is."""
        report = self._cockpit.report_of(None)
        selected = None if report is None else report.name
        runs = to_veto(self._cockpit.reports, self._cockpit.now(), selected)
        if self.reading_only or not runs:
            self._cockpit.say(f"veto: {self.reading_only or 'no run is selected'}")
        elif len(runs) > 1:
            self._cockpit.say(f"veto: agents are at {', '.join(runs)}: select one of them")
        else:
            spawn(self._app, partial(self._veto, runs[0]))

    async def _veto(self, run: str) -> None:
        try:
            service = await self.service()
        except TimeoutError as error:
            self._cockpit.warn(f"not vetoed: {error}")
            return
        operator = self._cockpit.watch_state.operator
        veto = await vetoed(service, run, operator)
        (self._cockpit.warn if veto.bad else self._cockpit.say)(veto.said)
        if veto.bad:
            return
        elsewhere = await service.end_elsewhere(run, operator, ended=veto.ended)
        if elsewhere is not None:
            self._cockpit.say("; ".join([veto.said] * veto.ended + [elsewhere]))

    @property
    def news_brief(self) -> str:
        """Return what agents are about and how many actions were interrupted, in short.

        For where the fleet's head is not in sight.
        """
        agents = [line for line, _ in self.agents]
        count = sum(each.outcome is not None for each in self.interrupted)
        key = "" if self.reading_only else f": {self._cockpit.keys.shown('journal')} journal"
        return " · ".join([*agents, *([f"■ {count} interrupted{key}"] if count else [])])

    def seen(self) -> None:
        """Drop the reminders of unfinished plans: a person has read them."""
        self._left.clear()

    def go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work that goes on when the screen that began it is left."""
        self._begin(work, self._tasks)

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work beside everything else that leaving may cut short."""
        self._begin(work, self._following)

    def _begin(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._cockpit.report_fault(error)

        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(ended)

    def _deed_ended(self, running_action: RunningAction) -> None:
        """Tell how an action ended, whoever looks."""
        self.planning.end(running_action.request)
        result = running_action.result
        if result is None or not self._app.is_running:
            return
        self._tell(running_action, result)
        if result.outcome is not Outcome.REFUSED:
            self._cockpit.look_again(running_action.request.run)
        if result.written is Records.PENDING:
            self.follow(self._pushed(running_action, result))

    def _tell(self, running_action: RunningAction, result: Result) -> None:
        from widgets.painting.journal import OUTCOMES

        word, lacks = OUTCOMES[result.outcome][0], not result.written.whole
        kept = lacks or result.written is Records.PENDING
        shows = result.outcome is not Outcome.REFUSED and kept
        parts = (means(result.outcome), result.written.value if shows else "")
        more = "; ".join(filter(None, parts))
        bad = result.outcome in (Outcome.FAILED, Outcome.UNKNOWN) or (shows and lacks)
        tell = self._cockpit.warn if bad else self._cockpit.say
        tell(": ".join(filter(None, (f"{running_action.title} {word}", more))))

    async def _pushed(self, running_action: RunningAction, result: Result) -> None:
        """Follow the push of an action's records until it is over, and report how it ended."""
        service = await self.service()
        for _ in range(FOLLOW_ROUNDS):
            result = await service.pushed(result, FOLLOW_FOR)
            if result.written is not Records.PENDING:
                break
            await asyncio.sleep(1.0)
        running_action.result = result
        running_action.changed()
        if self._app.is_running and not result.written.whole:
            self._tell(running_action, result)

    @property
    def under_way(self) -> list[str]:
        """What would be cut short by leaving now."""
        saving = ["saving a logbook entry"] * bool(self._tasks)
        return [each.title for each in self.running_actions.running] + saving

    def may_leave(self, leave: Callable[[], None]) -> bool:
        """Return whether to leave at once; else it is asked, once, and ``leave`` called on yes."""
        if not self.under_way or self._asked_to_leave:
            return True
        from screens.dialog import LeavingScreen

        self._asked_to_leave = True

        def answered(yes: bool | None) -> None:
            self._asked_to_leave = False
            if yes:
                leave()

        self._app.push_screen(LeavingScreen(self.under_way), answered)
        return False
