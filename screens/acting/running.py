"""Actions under way: open plans, running tasks, and agents with the veto that stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from cockpit.model.acts import Outcome, going_on
from cockpit.model.report import RunReport, orders_in_force
from cockpit.model.wording import clock_time, day_time, duration
from cockpit.runtime.offload import offload

if TYPE_CHECKING:
    from cockpit.actions.core.open_plans import HeldNote, OpenPlans
    from cockpit.actions.core.service import ActionService
    from cockpit.model.plan import Approval, Plan, Request, Result, StepResult


BESIDE: Final = ("ack",)
"""Verbs that are done beside others."""
_FOLLOW: Final = "follow"


@dataclass(eq=False)
class RunningAction:
    """One confirmed action: its steps as they were reported, and how it ended."""

    request: Request
    plan: Plan
    steps: list[StepResult] = field(default_factory=list)
    result: Result | None = None
    watchers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """``relaunch demo-torn``."""
        return f"{self.request.action} {self.request.run}"

    def take(self, step: StepResult) -> None:
        """Take how a step stands."""
        names = [each.name for each in self.steps]
        if step.name in names:
            self.steps[names.index(step.name)] = step
        else:
            self.steps.append(step)
        self.changed()

    def changed(self) -> None:
        """Call everyone who watches."""
        for watcher in tuple(self.watchers):
            watcher()

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` for every change; return how to stop that."""
        self.watchers.append(callback)
        return lambda: self.watchers.remove(callback) if callback in self.watchers else None


class RunningActions:
    """What is under way; ``ended`` hears of every end, ``fault`` of the cockpit's own faults."""

    def __init__(
        self, ended: Callable[[RunningAction], None], fault: Callable[[BaseException], str]
    ) -> None:
        self._ended = ended
        self._fault = fault
        self._running: dict[asyncio.Task[Result], RunningAction] = {}
        self.changes = 0
        """How often something has begun or ended."""

    @property
    def running(self) -> tuple[RunningAction, ...]:
        """Every action under way."""
        return tuple(self._running.values())

    def of(self, run: str) -> RunningAction | None:
        """Return the action under way that nothing else on the run may cross."""
        alone = (each for each in self.running if each.request.action not in BESIDE)
        return next((each for each in alone if each.request.run == run), None)

    def start(
        self,
        service: ActionService,
        request: Request,
        plan: Plan,
        words: str,
        approvals: Sequence[Approval],
    ) -> RunningAction:
        """Begin an action that was confirmed by ``words``."""
        running_action = RunningAction(request, plan)
        work = service.act(request, words, tuple(approvals), shown=plan.plan_id, seen=plan.lost,
                           on_step=running_action.take)  # fmt: skip
        task: asyncio.Task[Result] = asyncio.ensure_future(work)
        self._running[task] = running_action
        self.changes += 1
        task.add_done_callback(self._done)
        return running_action

    def _done(self, task: asyncio.Task[Result]) -> None:
        running_action = self._running.pop(task)
        self.changes += 1
        running_action.result = self._result(task, running_action.plan.plan_id)
        running_action.changed()
        self._ended(running_action)

    def _result(self, task: asyncio.Task[Result], plan_id: str) -> Result:
        """Return how it ended; whatever raised in the middle leaves the outcome unknown."""
        from cockpit.actions.core.action import RefuseError
        from cockpit.model.plan import Result

        outcome, message = Outcome.UNKNOWN, "interrupted: the journal tells how far it came"
        if not task.cancelled():
            error = task.exception()
            if error is None:
                return task.result()
            refused = isinstance(error, RefuseError)
            outcome = Outcome.REFUSED if refused else Outcome.UNKNOWN
            message = str(error) if refused else self._fault(error)
        return Result(plan_id=plan_id, outcome=outcome, message=message)


def follows(running_action: RunningAction, reports: Sequence[RunReport]) -> str:
    """Return when the run is checked next, for an action that has started a job."""
    from cockpit.model.plan import StepState
    from cockpit.store.launches import FIRST_CHECK

    result = running_action.result
    if result is None or result.outcome is not Outcome.DONE or result.job_id is None:
        return ""
    planned = (each.at for each in result.steps
               if each.name == _FOLLOW and each.state is StepState.DONE)  # fmt: skip
    run = running_action.request.run
    cadences = (each.spec.cadence for each in reports if each.name == run)
    then = "".join(f", then every {duration(each)}" for each in cadences if each)
    firsts = (f"first check at {clock_time(at + FIRST_CHECK)}{then}" for at in planned)
    return next(firsts, "")


WITHIN: Final = 5.0


class Planning:
    """The open plans of this cockpit; ``None`` for plans: nothing is noted."""

    def __init__(self, plans: OpenPlans | None) -> None:
        self._plans = plans
        self._wanted: dict[tuple[str, str], bool] = {}
        self._held: dict[tuple[str, str], HeldNote] = {}

    async def begin(self, request: Request, now: float) -> None:
        """Note that this is being planned, unless that has ended by the time it is noted."""
        about = request.action, request.run
        if self._plans is None or about in self._wanted:
            return
        self._wanted[about] = True
        try:
            held = await offload(self._plans.hold, *about, now, deadline=WITHIN)
        except (OSError, TimeoutError):  # without the note only the reminder is lost
            self._wanted.pop(about, None)
            return
        if about in self._wanted:
            self._held[about] = held
        else:
            held.forget()

    def end(self, request: Request) -> None:
        """Take the note away: a person has left the plan, or it is done and journaled."""
        about = request.action, request.run
        self._wanted.pop(about, None)
        held = self._held.pop(about, None)
        if held is not None:
            held.forget()

    def end_all(self) -> None:
        """Take all notes away: a person leaves with these plans open, and knows."""
        self._wanted.clear()
        while self._held:
            self._held.popitem()[1].forget()

    async def left(self, service: ActionService, now: float) -> list[str]:
        """Return, once, what cockpits that are gone were planning and did not do; a line each.

        Raises what reading the journal raises: then the next start asks again.
        """
        if self._plans is None:
            return []
        try:
            found = await offload(self._plans.left, deadline=WITHIN)
        except (OSError, TimeoutError):
            return []
        said: list[str] = []
        try:
            while found:
                note = found[0].note
                entries = await service.history(note.run)
                if not any(e.action == note.action and e.begun_at >= note.at for e in entries):
                    kind = "an" if note.action[:1] in "aeiou" else "a"
                    planned = f"{kind} {note.action} of {note.run} was being planned"
                    said.append(f"{planned}, nothing was done (at {day_time(note.at, now)})")
                found.pop(0).forget()
        finally:
            for each in found:
                each.release()
        return said


def agent_news(
    reports: Sequence[RunReport], now: float, veto_key: str | None
) -> list[tuple[str, bool]]:
    """Return a line for each thing that an agent is about, and whether it waits for a veto.

    A standing order has one, too.

    ``veto_key`` is the key that vetoes; ``None`` where nothing may be done.
    """
    veto = "not to be vetoed here" if veto_key is None else f"{veto_key} vetoes"
    ends = "" if veto_key is None else f" · {veto_key} ends it"
    acts = [act for report in reports for act in report.agents]
    lines = going_on(acts, now, veto)
    waiting = sum(act.waits(now) for act in acts)
    orders = [(line, False) for line in orders_in_force(reports, now, ends)]
    return [*((line, place < waiting) for place, line in enumerate(lines)), *orders]


def to_veto(reports: Sequence[RunReport], now: float, selected: str | None) -> list[str]:
    """Return the run that a veto is meant for, or those among which a person has to say.

    The key stands on the screen beside what will happen: where one agent waits, it means that one,
    whichever run is selected; where none does, the one with a standing order.
    """
    waiting = [each.name for each in reports if any(act.waits(now) for act in each.agents)]
    planned = any(each.agents for each in reports if each.name == selected)
    if not waiting and not planned:
        waiting = [each.name for each in reports if each.standing is not None]
    if selected is not None and (selected in waiting or not waiting):
        return [selected]
    return waiting


class Vetoing(NamedTuple):
    """What to say of a veto, whether that is bad news, and whether it has ended an order here."""

    said: str
    bad: bool = False
    ended: bool = False


async def vetoed(service: ActionService, run: str, operator: str) -> Vetoing:
    """Veto what agents are about on a run, and end its standing order here."""
    from cockpit.actions.core.action import RefuseError, UnansweredError
    from cockpit.store.store import StoreError

    try:
        found = await service.veto(run, operator)
    except (UnansweredError, TimeoutError) as error:
        return Vetoing(f"cannot tell whether it was vetoed, veto again: {error}", bad=True)
    except (RefuseError, StoreError) as error:
        return Vetoing(f"not vetoed: {error}", bad=True)
    if not found.lines:
        none = f"no agent is waiting to act on {run}, and it has no standing order"
        return Vetoing(f"{none}, in this account's store")
    ended = [] if found.order is None else [f"the {found.order.operator} on {run} has ended"]
    acts = ", ".join(f"{act.action} {act.run} by {act.agent}" for act in found.acts)
    held = [f"vetoed, and held off for an hour: {acts}"] if acts else []
    return Vetoing("; ".join([*ended, *held]), ended=bool(ended))
