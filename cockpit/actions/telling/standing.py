"""A-15: arms the standing order of a run file, or ends it. What it does then is a relaunch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.core.action import (
    NOW,
    Action,
    ActionContext,
    Execution,
    RefuseError,
    Step,
    until_instant,
    until_param,
    yes_param,
)
from cockpit.actions.core.guards import Claims
from cockpit.actions.core.recording import log_step, shared_fact
from cockpit.model import check_rows as rows
from cockpit.model.base import rfc3339
from cockpit.model.plan import Check, Draft, Level, Plan, Request
from cockpit.model.records import EventText
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import STANDING, SharedFact, is_agent
from cockpit.model.standing import CLOCKS_OFF, ENDED, terms_text
from cockpit.model.wording import moment
from cockpit.store.journal import ENDS, HEARD, OFF, SPEC, TERMS, order_in, run_digest
from cockpit.store.store import pack
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.scrub import shown

LONGEST: Final = 7 * 86400.0
"""Seconds that an order may last: what nobody renews within a week is forgotten."""


class Standing(Action):
    """Arms an order by the terms in the run file; ``off`` ends it, on every machine."""

    verb = "standing"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what the order may do until when, and whether that could be done and told."""
        words, spec = f"standing {request.run}", context.spec.standing
        if yes_param(request.params.get("off"), "off"):
            check = passed(rows.STANDING_TERMS, _present(context))
            return Draft(words=words, checks=(check,), facts={OFF: "yes"})
        named = None if spec is None else spec.relaunch.until
        until = until_param(request.params.get("until") or named, context.now)
        if until in (None, NOW):
            raise RefuseError("--until is missing: when the order ends, such as 10h")
        claims = await Claims(context.parts.guards).survey(context.spec)
        guarded = next((each for each in claims if each.level == Level.PASS.value), None)
        return Draft(
            words=words,
            checks=(
                _terms(context.spec),
                _who(context),
                _until(until, context.now),
                *_can_be_done(context.spec),
                passed(rows.STANDING_GUARD, guarded.text)
                if guarded is not None
                else blocked(rows.STANDING_GUARD, "; ".join(each.text for each in claims)),
                _carried_out(context),
            ),
            facts={
                OFF: "no",
                "until": until,
                TERMS: "" if spec is None else pack(spec.relaunch),
                SPEC: run_digest(context.spec),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: arm it, or end it, and tell the other cockpits."""
        word = "log the end of the standing order" if _off(plan) else "log standing order"
        return (Step("allow", _allow), log_step(_entry, f"{plan.run}: {word}", tells=_tells))


def _off(plan: Plan) -> bool:
    return plan.facts[OFF] == "yes"


def _present(context: ActionContext) -> str:
    order = order_in(context.entries)
    if order is None:
        return "no order was armed here; others hear that none holds any more"
    return f"ends the {order.operator} until {moment(order.until)}"


def _terms(spec: RunSpec) -> Check:
    if spec.standing is None:
        return blocked(rows.STANDING_TERMS, f"[run.standing] of {spec.name} is not in the run file")
    if not spec.standing.relaunch.classes:
        return blocked(
            rows.STANDING_TERMS, "standing.relaunch.classes is empty: it could do nothing"
        )
    return passed(rows.STANDING_TERMS, terms_text(spec.standing.relaunch))


def _who(context: ActionContext) -> Check:
    """Return whether who types it may arm it: nobody arms it in another's name."""
    spec, owner = context.spec.standing, context.spec.dri
    allowed = spec.by if spec is not None and spec.by else tuple(filter(None, (owner,)))
    who = shown(context.typed_by)
    if is_agent(context.operator):
        return blocked(rows.STANDING_WHO, "an agent cannot arm it: a person types it")
    if not any(context.is_word_of(name) for name in allowed):
        named = ", ".join(map(shown, allowed)) or "nobody: the run has no dri"
        return blocked(rows.STANDING_WHO, f"typed by {who}; who may arm it: {named}")
    return passed(rows.STANDING_WHO, f"armed by {who}", value=context.operator)


def _until(until: str, now: float) -> Check:
    at = until_instant(until, now)
    if at is None or at <= now:
        return blocked(rows.STANDING_UNTIL, f"{until} is over already", value=until)
    if at > now + LONGEST:
        return blocked(rows.STANDING_UNTIL, f"{until} is more than 7 days away", value=until)
    return passed(rows.STANDING_UNTIL, f"ends by itself at {moment(at)}", value=until)


def _can_be_done(spec: RunSpec) -> Iterator[Check]:
    """Yield what stands against any relaunch, would leave a doubt with nobody, or undo a stop."""
    if spec.standing is not None and "killed" in spec.standing.relaunch.classes:
        text = "killed: a kill -9 that a person types looks the same, and would be relaunched"
        yield warned(rows.STANDING_KILLED, f"{text}; cockpit stop {spec.name} is kept to")
    if spec.resubmit is None:
        yield blocked(rows.STANDING_TERMS, "no resubmit command: nothing could be relaunched")
    if spec.dri is None or spec.escalation == "nobody":
        text = "an escalation would reach nobody: set dri and a route or an issue"
        yield blocked(rows.STANDING_TERMS, text)


def _carried_out(context: ActionContext) -> Check:
    watch = context.report.watched_by
    if watch is None:
        text = "no watch owns the run: the order works only while a cockpit is open here"
        return warned(rows.STANDING_WATCH, text)
    return passed(rows.STANDING_WATCH, f"carried out by {watch}")


async def _allow(execution: Execution) -> str:
    if _off(execution.plan):
        return "no standing order any more"
    at = until_instant(execution.plan.facts["until"], execution.entry.begun_at)
    assert at is not None
    records, since = execution.context.report.facets.records.value, execution.entry.begun_at
    told = () if records is None else records.told
    heard = " ".join(each.digest for each in told if each.at >= since - CLOCKS_OFF)
    await execution.note(**{ENDS: f"{at:.3f}", HEARD: heard})
    return f"armed by {execution.entry.operator} until {moment(at)}"


def _tells(execution: Execution) -> tuple[SharedFact, ...]:
    """Return that an order holds, or none, for every other account that watches the run."""
    value = ENDED if _off(execution.plan) else "armed"
    parts = {} if value == ENDED else {"until": rfc3339(float(execution.facts[ENDS]))}
    return (shared_fact(execution, STANDING, value, parts),)


def _entry(execution: Execution) -> EventText:
    plan, off = execution.plan, _off(execution.plan)
    said = next(check.text for check in plan.checks if check.id == rows.STANDING_TERMS.id)
    run = plan.run
    who = execution.entry.operator
    return EventText(
        title="standing order ended" if off else "standing order armed",
        status=f"ended by {who}"
        if off
        else f"armed by {who} until {moment(float(execution.facts[ENDS]))}",
        evidence=said,
        next="a person relaunches" if off else f"cockpit veto {run} ends it at once",
    )
