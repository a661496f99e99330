"""Actions under way: tasks of the app, told live to whoever looks, and what follows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cockpit.model.acts import Outcome
from cockpit.model.report import RunReport
from cockpit.model.wording import clock_time, duration

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService
    from cockpit.model.plan import Approval, Plan, Request, Result, StepResult

BESIDE: Final = ("ack",)
"""Verbs that are done beside others."""
_FOLLOW: Final = "follow"


@dataclass(eq=False)
class RunningAction:
    """One action that was confirmed: its steps as they were told, and how it ended."""

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
        """Tell everyone who looks."""
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
        alone = (
            running_action
            for running_action in self.running
            if running_action.request.action not in BESIDE
        )
        return next(
            (running_action for running_action in alone if running_action.request.run == run), None
        )

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
        work = service.act(
            request,
            words,
            tuple(approvals),
            shown=plan.plan_id,
            seen=plan.lost,
            on_step=running_action.take,
        )
        task: asyncio.Task[Result] = asyncio.ensure_future(work)
        self._running[task] = running_action
        self.changes += 1
        task.add_done_callback(self._done)
        return running_action

    def _done(self, task: asyncio.Task[Result]) -> None:
        running_action = self._running.pop(task)
        self.changes += 1
        running_action.result = self._result(task, running_action)
        running_action.changed()
        self._ended(running_action)

    def _result(self, task: asyncio.Task[Result], running_action: RunningAction) -> Result:
        """Return how it ended; whatever raised in the middle leaves the outcome unknown."""
        from cockpit.actions.core.action import RefuseError
        from cockpit.model.plan import Result

        plan_id = running_action.plan.plan_id
        if task.cancelled():
            message = "interrupted: the journal tells how far it came"
            return Result(plan_id=plan_id, outcome=Outcome.UNKNOWN, message=message)
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, RefuseError):
            return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message=str(error))
        return Result(plan_id=plan_id, outcome=Outcome.UNKNOWN, message=self._fault(error))


def follows(running_action: RunningAction, reports: Sequence[RunReport]) -> str:
    """Return when the run is checked next, for an action that has started a job."""
    from cockpit.model.plan import StepState
    from cockpit.store.followups import FIRST_CHECK

    result = running_action.result
    if result is None or result.outcome is not Outcome.DONE or result.job_id is None:
        return ""
    step = next((each for each in result.steps if each.name == _FOLLOW), None)
    if step is None or step.state is not StepState.DONE:
        return ""
    cadence = next(
        (each.spec.cadence for each in reports if each.name == running_action.request.run), None
    )
    then = f", then every {duration(cadence)}" if cadence else ""
    return f"first check at {clock_time(step.at + FIRST_CHECK)}{then}"
