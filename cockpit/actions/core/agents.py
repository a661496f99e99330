"""What holds those who act without a person: a standing order, and an agent (SPEC A-15).

What a standing order does not know to be harmless is a doubt, and a doubt is for a person: that is
one check more in the plan of a relaunch, made anew under the lease. An agent goes the one road of
all actions; for the time of its grace an act waits where every cockpit sees it, and one change of
its row decides whether it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from cockpit.actions.core.action import ActionContext, asked
from cockpit.actions.core.confirming import refused
from cockpit.actions.core.execution import StepListener
from cockpit.config.file import ConfigError
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.acts import LATE, TAKEN_HOLDS, TELLS, VETO_HOLDS, AgentAct, Outcome, Stage
from cockpit.model.alert import Severity
from cockpit.model.clock import Clock
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.plan import Basis, Check, Level, Plan, Request, Result, StepResult, StepState
from cockpit.model.run import CockpitFile, RunSpec, agents_of
from cockpit.model.shared_facts import LAUNCHED, by_standing_order, is_agent
from cockpit.model.standing import PAST, StandingOrder
from cockpit.model.wording import moment
from cockpit.notify.message import NobodyReachedError
from cockpit.rules.jobs.restarts import failure_of
from cockpit.rules.jobs.terminal import diagnosis
from cockpit.runtime.offload import offload
from cockpit.store.journal import FAILED_STEP, Journal, StandingOrders, order_in, run_digest
from cockpit.store.launches import GONE, AgentRecords, OtherWaitsError
from cockpit.store.store import Store, StoreError
from cockpit.text.checks import blocked, finding, passed
from cockpit.text.scrub import shown

MAY: Final = ("relaunch", "escalate")
"""Verbs that a standing order acts with."""
CLOCKS: Final = 60.0
"""Seconds by which two clocks that are right may differ."""
NEEDED: Final = ("job", "log", "tracker", "checkpoints", "records", "code")
"""Facets that must be known, of those that the run file names."""
OF_THE_END: Final = frozenset(("C-01", "C-03", "C-24", "C-26"))
"""Alerts that a job's end brings, or that say nothing of the run: all others are a doubt."""
OVER: Final = "over"
"""The value of the check where no order is in force any more: then nothing is left to tell."""
USED: Final = "standing"
"""The fact of a plan that counts the order's relaunches: ``2 of 3``."""


def forbidden(file: CockpitFile, run: RunSpec, operator: str, action: str) -> str | None:
    """Return why the run file does not let an agent or a standing order do this."""
    if by_standing_order(operator):
        if action not in MAY:
            return f"a standing order may {' and '.join(MAY)}; {action} is for a person to do"
        if run.standing is None and action not in TELLS:
            return f"[run.standing] of {run.name} is not in the run file"
        return None
    rules = agents_of(file, run)
    if action in rules.may:
        return None
    allowed = ", ".join(rules.may) or "nothing"
    return f"[agents] may of {run.name} is: {allowed}; {action} is for a person to do"


def order_now(context: ActionContext) -> StandingOrder | None:
    """Return the run's standing order with all that is told of it, without our own action."""
    order = order_in(context.entries, but_for=context.launch_id)
    records = context.report.facets.records.value
    told = () if records is None else records.told
    others = (each for each in told if each.value != context.launch_id)
    return None if order is None else order.known_with(others, context.now)


def standing_check(context: ActionContext, checks: Sequence[Check]) -> Check:
    """Return whether the order covers this relaunch, whose other checks these are."""
    order = order_now(context)
    doubts = ["no standing order is armed here"] if order is None else [
        *_of_the_order(context, order), *_of_the_end(context, order, checks),
        *_of_progress(context, order), *_of_the_facts(context), *_of_the_plan(context, checks),
    ]  # fmt: skip
    if doubts:
        over = OVER if order is None or order.over is not None else None
        return blocked(rows.STANDING_ORDER, "; ".join(doubts), value=over)
    assert order is not None
    count = f"{order.used(context.now) + 1} of {order.terms.at_most}"
    return passed(rows.STANDING_ORDER, f"{order.operator} covers it: {count}", value=count)


def _history(context: ActionContext) -> History:
    named = context.spec.job is not None
    return History(now=context.now, facets=context.report.facets, job_named=named)


def _of_the_order(context: ActionContext, order: StandingOrder) -> Iterator[str]:
    """Yield why the order itself does not hold."""
    now, spec = context.now, context.spec.standing
    if order.over is not None:
        yield f"the order is over: {order.over}"
    if order.operator != context.operator:
        yield f"the order that is armed is the {order.operator}"
    if spec is None or spec.relaunch != order.terms:
        yield "[run.standing] was changed since the order was armed"
    elif run_digest(context.spec) != order.spec:
        yield "the run's table in the run file was changed since the order was armed"
    late = max(each.begun_at for each in context.entries)
    if late > now + CLOCKS:
        yield (
            f"the clock was set back: it is {wording.moment(now)}, and the journal has an"
            f" action of {wording.moment(late)}"
        )
    if order.used(now) >= order.terms.at_most:
        within = wording.span(order.terms.within)
        yield f"all {order.terms.at_most} relaunches within {within} are used up"


def _of_the_end(
    context: ActionContext, order: StandingOrder, checks: Sequence[Check]
) -> Iterator[str]:
    """Yield why the job's end is none that the order names, by what was observed of it."""
    job = context.report.facets.job.value
    if job is None or job.phase is not Phase.FAILED:
        yield "the job is not known to have failed"
    cause = next((check for check in checks if check.id == rows.CAUSE.id), None)
    if cause is None or cause.level is not Level.PASS or cause.basis is not Basis.OBSERVED:
        yield "what ended the job does not simply call for a relaunch"
    elif cause.value not in order.terms.classes:
        named = ", ".join(order.terms.classes)
        yield f"the cause is {wording.cause(cause.value or 'unknown')}; the order names {named}"
    elif (found := diagnosis(_history(context))) is None or found.confidence == "guess":
        yield f"that the cause is {wording.cause(cause.value)} is a guess"


def _of_progress(context: ActionContext, order: StandingOrder) -> Iterator[str]:
    """Yield that the run is not past the step at which it failed before, or that nobody knows."""
    if not order.terms.only_past_failure:
        return
    failure = failure_of(context.spec, _history(context))
    step = None if failure is None else failure.step
    records = context.report.facets.records.value
    launches = [
        (each.begun_at, each.facts.get(FAILED_STEP, ""))
        for each in context.entries
        if each.launch_id not in (None, context.launch_id) and each.outcome is Outcome.DONE
    ]
    launches += [
        (each.at, each.parts.get(PAST, ""))
        for each in (() if records is None else records.told)
        if each.what == LAUNCHED and each.value != context.launch_id
    ]
    former = [(at, int(told)) for at, told in launches if told.isdecimal()]
    if step is None:
        yield "the step at which the job failed is unknown"
    elif former and step <= max(former)[1]:
        before = wording.steps(max(former)[1])
        yield f"it failed at step {wording.steps(step)}, and before that at step {before}"
    elif order.uses and order.uses[-1].failed_step is None:
        yield f"the step before {order.uses[-1].launch_id} is unknown"


def _of_the_facts(context: ActionContext) -> Iterator[str]:
    """Yield what is unknown, what two sources tell differently, and which alerts are open."""
    facets = dict(context.report.facets.items())
    for name in NEEDED:
        facet = facets[name]
        if facet.configured and (not facet.known or facet.remembered):
            yield f"the {name} is unknown: {facet.why_unknown('not asked yet')}"
    job, tracker = context.report.facets.job.value, context.report.facets.tracker.value
    ended = None if job is None else job.ended_at
    logged = None if tracker is None else tracker.last_step_at
    if ended is not None and logged is not None and logged > ended + CLOCKS:
        late = f"the tracker has a step of {wording.moment(logged)}"
        yield f"the job is said to have ended at {wording.moment(ended)}, and {late}"
    for alert in context.report.alerts:
        taken = alert.acknowledged is not None and not is_agent(alert.acknowledged.by)
        known = alert.id in OF_THE_END or taken
        if not known and alert.severity is not Severity.INFO:
            yield f"{alert.id} is open: {alert.title}"


def _of_the_plan(context: ActionContext, checks: Sequence[Check]) -> Iterator[str]:
    """Yield each warning that no person has gone past when they launched the run last."""
    launches = (each for each in reversed(context.entries) if each.launch_id is not None)
    mine = (each for each in launches if not is_agent(each.operator))
    last = next((each for each in mine if each.outcome is Outcome.DONE), None)
    checked = () if last is None else last.plan.checks
    seen = {(each.id, each.text, each.value) for each in checked}
    for check in checks:
        accepted = (check.id, check.text, check.value) in seen
        accepted = accepted and check.id != rows.SECOND_MACHINE.id
        if check.level is Level.WARN and not accepted:
            yield f"{check.id} warns: {check.text}"


if TYPE_CHECKING:
    from cockpit.notify.notifier import Notifications

LOOK_EVERY: Final = 0.5
"""Seconds between two looks whether a person has stopped what waits."""
READ_WITHIN: Final = 10.0
GRACE: Final = "grace"
"""The step that is told of while a person may veto; once it is done the act goes on to its end."""
NOTHING_DONE: Final = "nothing was done"


@dataclass(frozen=True)
class Turn:
    """One act that is about to begin. ``over``: the person who takes the run over by it, if so.

    ``forbidden`` is why the run file does not let an agent do it, ``grace`` how long it waits (s).
    """

    key: str
    spec: RunSpec
    request: Request
    plan: Plan
    forbidden: str | None
    grace: float
    over: str | None
    on_step: StepListener


class Vetoed(NamedTuple):
    """What a veto has stopped: acts of agents, and the standing order that was in force."""

    acts: tuple[AgentAct, ...]
    order: StandingOrder | None

    @property
    def lines(self) -> list[str]:
        """What it was, one line each; none where there was nothing to stop."""
        ended = [] if self.order is None else [f"the {self.order.operator} has ended"]
        return [*ended, *(act.text for act in self.acts)]


class AgentGuard:
    """Stands before the begin of every action on a store that several cockpits share.

    ``takes_over`` tells whether a person who plans an action has taken the run over by that,
    ``reread`` reads the run file as it lies there.
    """

    def __init__(
        self,
        store: Store | None,
        clock: Clock,
        notifier: Callable[[], Notifications] | None = None,
        takes_over: Callable[[str], bool] = lambda action: False,
        reread: Callable[[], CockpitFile] | None = None,
    ) -> None:
        self._records = None if store is None else AgentRecords(store)
        self._journal = None if store is None else Journal(store)
        self._orders = None if store is None else StandingOrders(store)
        self._clock = clock
        self._notifier = notifier
        self._takes_over = takes_over
        self._reread = reread

    async def checks(self, context: ActionContext, action: str) -> list[Check]:
        """Return whether an agent may do this, and what holds it off; of a person nothing."""
        if not is_agent(context.operator):
            return []
        told = forbidden(context.file, context.spec, context.operator, action)
        standing = by_standing_order(context.operator)
        where = "[run.standing]" if standing else "[agents] may"
        who = (context.key, context.spec.name, context.operator)
        return await self._allowed(*who, told, action, where)

    async def _allowed(
        self, key: str, run: str, operator: str, forbids: str | None, action: str, where: str = ""
    ) -> list[Check]:
        """Return whether the run file lets an agent do this, and what a person says against it."""
        if forbids is not None:
            return [blocked(rows.AGENTS, forbids)]
        found = passed(rows.AGENTS, f"{where} of {run} has {action}")
        held = await self._held(key, action, operator)
        return [found] if held is None else [found, finding(rows.VETO, held)]

    async def noted(self, key: str, plan: Plan, over: str | None) -> Plan:
        """Note that a plan was made: an agent's is told of, by a person's ``over`` takes over.

        Returns the plan, with what it has stopped by that. Raises nothing: a plan that cannot be
        kept is blocked elsewhere.
        """
        if self._records is None or not self._records.writes:
            return plan
        now = self._clock.now()
        try:
            if is_agent(plan.operator):
                asks = (key, plan.operator, plan.action, plan.plan_id, now)
                await asked(self._records.planned, *asks)
            elif over is not None:
                stopped = await self._take_over(key, over, f"plans {plan.action}")
                checks = (*map(_taken_check, stopped), *plan.checks)
                return plan.model_copy(update={"checks": checks})
        except StoreError:
            return plan
        return plan

    async def veto(self, key: str, by: str, reason: str) -> Vetoed:
        """End the run's standing order, and stop what agents are about; return what that was.

        Raises ``StoreError``.
        """
        if self._records is None or self._orders is None or not self._records.writes:
            raise StoreError("the store cannot be written: a veto would not be seen")
        now, said = self._clock.now(), shown(reason, 200)
        why = f"vetoed by {by}" + (f" ({said})" if said else "")
        ended = await asked(self._orders.end, key, why, now)
        stopped = await asked(self._records.stop, key, by, said, now, Stage.VETOED)
        return Vetoed(stopped, ended)

    async def attended(self, turn: Turn, begin: Callable[[], Awaitable[Result]]) -> Result:
        """Do an act: a person's at once, an agent's after its grace, unless it was stopped.

        Raises ``StoreError``. Cancelled while it waits, it never begins.
        """
        assert self._records is not None
        plan, operator = turn.plan, turn.request.operator
        if not is_agent(operator):
            if turn.over is not None:
                await self._take_over(turn.key, turn.over, f"acts: {plan.action}")
            return await begin()
        who = (turn.key, turn.spec.name, operator)
        allowed = await self._allowed(*who, turn.forbidden, plan.action)
        if allowed[-1].stands_in_the_way:
            return refused(plan.plan_id, f"{allowed[-1].text}; {NOTHING_DONE}")
        now, grace = self._clock.now(), 0.0 if plan.action in TELLS else turn.grace
        row = (turn.key, operator, plan.action, plan.plan_id, now, now + grace)
        try:
            act = await asked(self._records.wait, *row)
        except OtherWaitsError as other:
            said = f"{other.act.agent} waits to {other.act.action} {other.act.run} already"
            return refused(plan.plan_id, f"{said}; {NOTHING_DONE}")
        telling = asyncio.ensure_future(self._notify_people(act, turn.spec) if grace else _nobody())
        try:
            why = await self._waited(act, turn, grace, telling)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(act, Stage.WITHDRAWN, GONE))
            raise
        except StoreError as error:  # it may stand as begun there: only the answer was lost
            await self._end(act, Stage.WITHDRAWN, f"{error}; {NOTHING_DONE}")
            raise
        finally:
            telling.cancel()
        if why is not None:
            await self._end(act, Stage.WITHDRAWN, why)
            return refused(plan.plan_id, f"{why}; {NOTHING_DONE}")
        return await self._carry_out(act, begin)

    async def _carry_out(self, act: AgentAct, begin: Callable[[], Awaitable[Result]]) -> Result:
        """Do what may begin now, and write down how it ended."""
        result = await begin()
        refused_it = result.outcome is Outcome.REFUSED
        stage = Stage.REFUSED if refused_it else Stage.ENDED
        told = (None if refused_it else result.text, result.message or None)
        await self._end(act, stage, shown(": ".join(filter(None, told)), 300))
        return result

    async def _waited(
        self, act: AgentAct, turn: Turn, grace: float, telling: asyncio.Future[str]
    ) -> str | None:
        """Wait until the act may begin, and let it; return why it may not."""
        assert self._records is not None
        ends = self._clock.monotonic() + grace
        if grace:
            said = f"a person may veto until {moment(act.until or 0.0)}"
            at = act.changed_at
            turn.on_step(StepResult(name=GRACE, state=StepState.BEGUN, at=at, note=said))
        while (left := ends - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, LOOK_EVERY))
            with suppress(StoreError):  # the begin below has the last word
                found = await asked(self._records.act, act.number)
                if found.stage is Stage.WITHDRAWN:  # too late by others' clock: why is seen below
                    break
                if found.stage is not Stage.WAITING:
                    return found.text
        late, now = self._clock.monotonic() - ends, self._clock.now()
        if late > LATE:
            return f"this process stood still for {late:.0f} s past its grace; plan again"
        if abs(now - (act.until or 0.0)) > LATE:  # others saw no grace, or another one
            return "the clock was set, or this machine slept, within its grace; plan again"
        if (forbids := await self._forbidden_now(turn)) is not None:
            return forbids
        note = f"nobody vetoed; {_who(telling)}"
        turn.on_step(StepResult(name=GRACE, state=StepState.DONE, at=now, note=note))
        stopped = await asked(self._records.begin, act.number, now)
        return None if stopped is None else stopped.text

    async def _forbidden_now(self, turn: Turn) -> str | None:
        """Return why the run file as it lies there does not let an agent do this.

        The one in use may be an older one: an engine hangs, or keeps it for a bad edit.
        """
        tells = by_standing_order(turn.request.operator) and turn.plan.action in TELLS
        if self._reread is None or tells:
            return None
        try:
            file = await offload(self._reread, deadline=READ_WITHIN)
        except ConfigError as error:
            return f"what agents may do is not known: {error.problems[0]}"
        except (OSError, TimeoutError) as error:
            return f"what agents may do is not known: {shown(error)}"
        found = next((run for run in file.runs if run.name == turn.spec.name), None)
        if found is None:
            return f"the run file has no run {turn.spec.name} any more"
        forbids = forbidden(file, found, turn.request.operator, turn.plan.action)
        if forbids is None and found != turn.spec and turn.plan.action not in TELLS:
            return f"{turn.spec.name} was changed in the run file within its grace; plan again"
        return forbids

    async def _notify_people(self, act: AgentAct, spec: RunSpec) -> str:
        """Tell people by their routes what will begin; return who was reached, or that nobody was.

        Whoever looks at a cockpit sees it anyway.
        """
        if self._notifier is None:
            return "nobody was told"
        title = f"{act.agent} will {act.action} {act.run} at {moment(act.until or 0.0)}"
        body = f"cockpit veto {act.run} stops it; so does V in an open cockpit."
        event, severity = f"agent-act:{act.number}", Severity.ALERT.value
        try:
            return await self._notifier().send(spec, event, title, body, severity)
        except NobodyReachedError as error:
            return str(error)

    async def _end(self, act: AgentAct, stage: Stage, said: str) -> None:
        """Write how an act ended; a store that fails now costs only this line."""
        assert self._records is not None
        with suppress(StoreError):
            await asked(self._records.end, act.number, stage, said, self._clock.now())

    async def _take_over(self, key: str, by: str, said: str) -> tuple[AgentAct, ...]:
        """Stop what waits on a run because a person turns to it; return what that was."""
        assert self._records is not None
        now = self._clock.now()
        if not await asked(self._records.waiting, key):
            return ()
        return await asked(self._records.stop, key, by, said, now, Stage.TAKEN_OVER)

    async def _held(self, key: str, action: str, operator: str) -> str | None:
        """Return what holds agents off this action on a run: a veto, a person at work there.

        What a person did before they armed a standing order does not hold that off.
        """
        if self._records is None or self._journal is None or self._orders is None:
            return None
        now, since = self._clock.now(), 0.0
        try:
            if by_standing_order(operator):
                order = await asked(self._orders.of, key)
                since = 0.0 if order is None else order.at
            act = await asked(self._records.vetoed, key, action, now)
            plans = await asked(self._journal.plans, key, None, max(since, now - TAKEN_HOLDS))
        except StoreError as error:
            return f"whether a person holds agents off is not known: {error}"
        if act is not None and act.changed_at >= since:
            ends = moment(act.changed_at + VETO_HOLDS)
            return f"{act.text} at {moment(act.changed_at)}; it holds for agents until {ends}"
        mine = (each for each in plans if not is_agent(each.operator))
        found = next((each for each in mine if self._takes_over(each.action)), None)
        if found is None:
            return None
        planned, ends = moment(found.made_at), moment(found.made_at + TAKEN_HOLDS)
        return f"{found.operator} planned {found.action} at {planned}; agents keep off until {ends}"


async def _nobody() -> str:
    return "it only tells"


def _who(telling: asyncio.Future[str]) -> str:
    """Return who was told, whatever became of the telling: it holds nothing up."""
    if not telling.done():
        return "whether anybody was told is not known yet"
    error = telling.exception()
    return telling.result() if error is None else f"telling failed: {type(error).__name__}"


def _taken_check(act: AgentAct) -> Check:
    """Return what a person's plan has kept an agent from, for that plan."""
    text = f"{act.agent} waited to {act.action} this run and was stopped: you have taken it over"
    return finding(rows.AGENT_WAITED, text)
