"""What a standing order may do (SPEC A-15): one plan, all checks, and no doubt at all.

It is one check more in the plan of a relaunch, made anew under the lease. What it does not know to
be harmless is a doubt, and a doubt is for a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.core.action import ActionContext
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.acts import TELLS, Outcome
from cockpit.model.alert import Severity
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.plan import Basis, Check, Level
from cockpit.model.run import CockpitFile, RunSpec, agents_of
from cockpit.model.shared_facts import LAUNCHED, by_standing_order, is_agent
from cockpit.model.standing import PAST, StandingOrder
from cockpit.rules.jobs.restarts import failure_of
from cockpit.rules.jobs.terminal import diagnosis
from cockpit.store.journal import FAILED_STEP, order_in, run_digest
from cockpit.text.checks import blocked, passed

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
