"""The tools that plan and act: the same road as a person's, held by the guards for agents."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.agents import GRACE
from cockpit.actions.core.table import TABLE, ActionEntry
from cockpit.mcp.desk import Desk, OfRun, Progress, Tool, ToolError
from cockpit.mcp.views import Document, fields, fitted, lines_of
from cockpit.model.acts import TELLS, Outcome
from cockpit.model.base import Frozen
from cockpit.model.plan import Check, Level, Plan, Request, Result, StepResult, StepState
from cockpit.model.run import agents_of

WAITS: Final = 45.0
"""Seconds that ``act`` and ``outcome`` wait for the end unless they are told otherwise."""
TICK: Final = 5.0
"""Seconds between two notifications of progress while nothing new happens."""
WITHDRAWN: Final = "withdrawn: it never began"
KEPT: Final = 100
"""Plans and acts that are known by their ids."""
PAGE: Final = 120


class ToPlan(OfRun):
    """What ``plan`` takes."""

    action: str = Field(max_length=40, description="the verb: " + ", ".join(r.verb for r in TABLE))
    params: dict[str, str] = Field(
        default_factory=dict, max_length=16, description="the action's options by name, as text"
    )


class ToAct(Frozen):
    """What ``act`` takes."""

    plan_id: str = Field(max_length=40, description="the id of a plan that you were given")
    words: str = Field(max_length=400, description="the words of that plan, exactly")
    wait_s: float = Field(WAITS, ge=0, le=600, description="seconds to wait for its end")


class ToHear(Frozen):
    """What ``outcome`` takes."""

    act_id: str = Field(max_length=40, description="what act gave")
    wait_s: float = Field(WAITS, ge=0, le=600, description="seconds to wait for its end")


@dataclass
class Act:
    """An act of this agent: ``grace`` while a person may still veto it."""

    id: str
    request: Request
    plan_id: str
    steps: dict[str, StepResult] = field(default_factory=dict)
    grace: str | None = None
    task: asyncio.Task[Result] | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, step: StepResult) -> None:
        """Take note of a step."""
        if step.name == GRACE:
            self.grace = step.note if step.state is StepState.BEGUN else None
        self.steps[step.name] = step
        self.news.set()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.task is not None and self.task.done()

    @property
    def state(self) -> str:
        """How it stands, in a few words."""
        assert self.task is not None
        if self.task.cancelled():
            return WITHDRAWN
        if self.over:
            fault = self.task.exception()
            if fault is not None:
                outcome = Outcome.REFUSED if isinstance(fault, RefuseError) else Outcome.UNKNOWN
                return outcome.value
            return self.task.result().outcome.value
        return "waiting for veto" if self.grace is not None else "under way"

    @property
    def came_to_nothing(self) -> bool:
        """Whether it is known that nothing was done: then the same plan may be tried again."""
        return self.over and self.state in (WITHDRAWN, Outcome.REFUSED.value)


@dataclass
class Planned:
    """A plan that this agent was given, and what it did by it; planned again, it is a new one."""

    request: Request
    act: Act | None = None


class Acts:
    """The plans and acts of one agent in this session."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._plans: OrderedDict[str, Planned] = OrderedDict()
        self._acts: OrderedDict[str, Act] = OrderedDict()
        self._numbers = itertools.count(1)

    async def plan(self, desk: Desk, given: ToPlan, progress: Progress) -> Document:
        """Return what an action would do and what stands against it; changes nothing."""
        entry = _entry(given)
        await desk.ready()
        await progress(0, "looking at the run")
        asked = Request(
            action=given.action, run=desk.spec(given.run).name, operator=desk.operator,
            params=given.params,
        )  # fmt: skip
        try:
            plan = await desk.service.plan(asked)
        except RefuseError as error:
            raise ToolError(fitted(str(error))) from error
        self._plans[plan.plan_id] = Planned(asked)
        while len(self._plans) > KEPT:
            self._plans.popitem(last=False)
        rules = agents_of(desk.file, desk.spec(given.run))
        grace = 0.0 if entry.verb in TELLS else rules.grace
        return {**plan_view(plan), "grace_s": grace}

    async def act(self, desk: Desk, given: ToAct, progress: Progress) -> Document:
        """Do what was planned, after its grace; cancelled within it, it never begins.

        Once: a client that has lost the answer and asks again hears of the same act.
        """
        planned = self._plans.get(given.plan_id)
        if planned is None:
            raise ToolError("no such plan of yours in this session; plan again")
        act = planned.act
        if act is None or act.came_to_nothing:
            act = planned.act = self._sent(planned.request, given)
        try:
            await self._wait(act, given.wait_s, progress)
        except asyncio.CancelledError:
            self._withdraw(act)
            raise
        return self._outcome(act)

    def _sent(self, request: Request, given: ToAct) -> Act:
        act = Act(f"act-{next(self._numbers)}", request, given.plan_id)
        work = self._desk.service.act(request, given.words, shown=given.plan_id, on_step=act.heard)
        act.task = asyncio.create_task(work)
        act.task.add_done_callback(lambda task: act.news.set())
        self._keep(act)
        return act

    async def outcome(self, desk: Desk, given: ToHear, progress: Progress) -> Document:
        """Return how an act stands, or how it ended."""
        act = self._acts.get(given.act_id)
        if act is None:
            raise ToolError("no such act of yours in this session; see history")
        await self._wait(act, given.wait_s, progress)
        return self._outcome(act)

    async def leave(self) -> None:
        """Withdraw what was planned or has not begun, and wait for the end of what has."""
        for act in self._acts.values():
            self._withdraw(act)
        plans, self._plans = tuple(self._plans), OrderedDict()  # what still comes in begins nothing
        await self._desk.gone(plans)
        tasks = [act.task for act in self._acts.values() if act.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _withdraw(self, act: Act) -> None:
        begun = any(name != GRACE for name in act.steps)
        passed = GRACE in act.steps and act.steps[GRACE].state is StepState.DONE
        if act.task is not None and not begun and not passed:
            act.task.cancel()

    def _keep(self, act: Act) -> None:
        self._acts[act.id] = act
        old = [each for each in self._acts.values() if each.over]
        for each in old[: max(0, len(self._acts) - KEPT)]:
            del self._acts[each.id]

    async def _wait(self, act: Act, seconds: float, progress: Progress) -> None:
        """Wait for the end of an act, telling of each step."""
        until, told = self._desk.clock.monotonic() + seconds, 0
        while not act.over and (left := until - self._desk.clock.monotonic()) > 0:
            act.news.clear()
            told += 1
            await progress(told, _now(act))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, TICK)):
                    await act.news.wait()

    def _outcome(self, act: Act) -> Document:
        answer: Document = {
            "act_id": act.id,
            "plan_id": act.plan_id,
            "action": act.request.action,
            "run": act.request.run,
            "state": act.state,
            "over": act.over,
            "steps": [fields(step, "name state at foreign_note") for step in act.steps.values()],
        }
        if act.grace is not None and not act.over:
            answer["until"] = act.grace
        assert act.task is not None
        if act.over and not act.task.cancelled():
            answer |= _ended(act.task)
        return fitted(answer)


def _ended(task: asyncio.Task[Result]) -> Document:
    fault = task.exception()
    if isinstance(fault, RefuseError):
        return {"foreign_message": str(fault)}
    if fault is not None:
        return {"foreign_message": f"{type(fault).__name__}: see history"}
    result = task.result()
    if result.outcome is Outcome.REFUSED:
        return {"foreign_message": result.message}
    told = fields(result, "launch_id foreign_job_id foreign_message")
    return {**told, "recorded": result.written.value}


def _now(act: Act) -> str:
    """Return what goes on at this moment, in one line without foreign text."""
    if act.grace is not None:
        return act.grace
    begun = [step.name for step in act.steps.values() if step.state is StepState.BEGUN]
    return begun[-1] if begun else "checking again"


def _entry(given: ToPlan) -> ActionEntry:
    """Return the action's row; raises ``ToolError`` for a verb or an option that it has not."""
    entry = next((row for row in TABLE if row.verb == given.action), None)
    if entry is None:
        known = ", ".join(row.verb for row in TABLE)
        raise ToolError(f"no action {fitted(given.action, 40)!r}; there are: {known}")
    names = [param.name for param in entry.params]
    wrong = next((name for name in given.params if name not in names), None)
    if wrong is not None:
        takes = ", ".join(names) or "none"
        raise ToolError(f"{entry.verb} has no option {fitted(wrong, 40)!r}; it takes: {takes}")
    missing = [param.name for param in entry.params if param.required]
    lacks = next((name for name in missing if name not in given.params), None)
    if lacks is not None:
        raise ToolError(f"{entry.verb} needs params.{lacks}")
    return entry


def _code(check: Check) -> str:
    """Return a check's code: what stands behind it can be a key of somebody's config."""
    return check.id.partition(":")[0]


def plan_view(plan: Plan) -> Document:
    """Return a plan as an agent is shown it: what blocks and warns in full, what passes by name."""
    checks = [
        {"id": _code(check), **fields(check, "level basis foreign_id foreign_text")}
        for check in plan.checks
        if check.level is not Level.PASS
    ]
    blocks = dict.fromkeys(_code(check) for check in plan.checks if check.stands_in_the_way)
    answer: dict[str, object] = fitted(
        {
            **fields(plan, "plan_id action run words blocked foreign_summary foreign_command"),
            **fields(plan, "foreign_stops foreign_spares foreign_loses"),
            "blocked_by": list(blocks),
            "checks": checks,
            "passed": list(
                dict.fromkeys(_code(check) for check in plan.checks if check.level is Level.PASS)
            ),
            "from_step": None if plan.checkpoint is None else plan.checkpoint.step,
            "foreign_targets": [target.path for target in plan.targets],
        }
    )
    page = (plan.page or "").split("\n")
    more = {"foreign_page": "\n".join(lines_of(page[:PAGE]))} if plan.page else {}
    told = {**answer, **more}.items()
    return {
        name: each
        for name, each in told
        if each not in (None, []) or name in ("checks", "blocked_by")
    }


def acting(acts: Acts) -> tuple[Tool, ...]:
    """Return the tools that plan and act."""
    about = "; ".join(
        f"{row.verb} ({', '.join(p.name + ('*' if p.required else '') for p in row.params)})"
        for row in TABLE
        if row.params
    )
    return (
        Tool("plan", "Plans a guarded action on a run and says what stands against it; changes "
             f"nothing, a person sees it. params by action (* required): {about}.", ToPlan,
             {"plan_id": "string", "words": "string", "blocked": "boolean"}, acts.plan,
             reads=False),
        Tool("act", "Does a plan: its id and its words, typed exactly. What does more than tell "
             "waits for a grace in which a person may veto. Where state is not an end, ask "
             "outcome.", ToAct, {"act_id": "string", "state": "string", "over": "boolean"},
             acts.act, reads=False, destroys=True),
        Tool("outcome", "How an act stands or ended: waiting for veto, under way, done, refused, "
             "unknown (look it up, do not repeat), failed.", ToHear,
             {"act_id": "string", "state": "string", "over": "boolean"}, acts.outcome),
    )  # fmt: skip
