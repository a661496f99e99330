"""A-14, acknowledge or snooze an alert, or the run's end: who, until when, why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from cockpit.actions.core.action import Action, Execution, RefuseError, Step, StepError
from cockpit.actions.core.context import STARTED, ActionContext, job_in
from cockpit.actions.core.parameters import safe
from cockpit.actions.core.recording import log_step
from cockpit.model.alert import Acknowledgement, Alert
from cockpit.model.base import parse_duration, rfc3339
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventEntry
from cockpit.model.shared_facts import ACKNOWLEDGED, Told, is_agent, name_in, same_person, worded
from cockpit.runtime.offload import offload
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.launches import Endings
from cockpit.store.store import Store, StoreError
from cockpit.text.checks import blocked, passed, warned

END: Final = "end"
NOW: Final = "now"
DEADLINE: Final = 15.0
_PLAIN: Final = re.compile(r"[+]?[\d.]+\s*(?:ms|[smhdw]).*", re.I)


class Acknowledge(Action):
    """Takes an alert through the store, where every cockpit and watch of the run sees it."""

    verb = "ack"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be taken; a key that is not open is told with those that are."""
        key = (request.params.get("key") or "").strip()
        until = _until(request.params.get("until"), context.now)
        by = safe(request.params.get("by") or request.operator)
        if not by:
            raise RefuseError("no name given; expected --by NAME")
        if is_agent(context.operator) and not same_person(by, context.operator):
            raise RefuseError(f"--by names {by}: an agent acknowledges as itself alone")
        return Draft(
            words=f"ack {request.run}",
            checks=(*_checks(context, key, until), *_by(context, by)),
            facts={
                "key": key,
                "by": by,
                "until": "" if until is None else until,
                "reason": safe(request.params.get("reason") or ""),
                "job": context.job_id if key == END else "",
                STARTED: context.job_start if key == END else "",
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: take it in the store, log."""
        return (
            Step("ack", _take),
            log_step(_entry, f"{plan.run}: log acknowledgement", tells=_tells),
        )

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: it may have closed, the rest of the run may move."""
        if shown.facts != now.facts:
            return "another job is current now"
        return next((check.text for check in now.checks if check.stands_in_the_way), None)


def _by(context: ActionContext, by: str) -> Iterator[Check]:
    """Yield whose word it is where that is not who typed it."""
    if not same_person(by, context.operator) and not same_person(by, context.typed_by):
        text = f"it is said to be {by}'s word; typed by {context.typed_by}"
        yield warned("by", text, Basis.RECORDED, by)


def _until(text: str | None, now: float) -> str | None:
    """Return RFC 3339 or a duration as it was meant; raises ``RefuseError``.

    A duration stays one until it is done: planning it again does not make another plan.
    """
    word = (text or "").strip()
    if not word or word.lower() == NOW:
        return word.lower() or None
    try:
        if _PLAIN.fullmatch(word):
            parse_duration(word.lstrip("+"))
            return word.lstrip("+").lower()
        moment = datetime.fromisoformat(word.replace("Z", "+00:00"))
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        expected = "a time such as 2026-03-11T09:00:00Z, a duration such as 2h, or now"
        raise RefuseError(f"--until is {safe(word)!r}; expected {expected}") from error
    return rfc3339(at)


def _instant(until: str, now: float) -> float | None:
    if not until:
        return None
    if until == NOW:
        return now
    if _PLAIN.fullmatch(until):
        return now + parse_duration(until)
    return datetime.fromisoformat(until.replace("Z", "+00:00")).timestamp()


def _checks(context: ActionContext, key: str, until: str | None) -> Iterator[Check]:
    if key == END:
        yield _over(context)
        return
    alert = _open(context, key)
    if alert is None:
        keys = ", ".join(each.key for each in context.report.alerts) or "none"
        yield blocked("alert", f"no alert {safe(key)!r} is open; open: {keys}")
        return
    yield passed("alert", f"{alert.severity.value}: {alert.title}", value=alert.key)
    if until == NOW:
        yield warned("until", "its acknowledgement ends: it alerts again", Basis.RECORDED)
    elif alert.acknowledged is not None:
        by = alert.acknowledged.by
        yield warned("taken", f"already acknowledged by {by}", Basis.RECORDED)


def _over(context: ActionContext) -> Check:
    job = context.report.facets.job
    if context.spec.job is None:
        tracker = context.report.facets.tracker.value
        if tracker is not None and tracker.exit_code is not None:
            return passed(END, f"the tracker says that it ended with {tracker.exit_code}")
        return blocked(END, "cannot tell that the run is over")
    if not job.known or job.value is None:
        return blocked(END, "the job's state is unknown: its end cannot be acknowledged")
    if not job.value.phase.terminal:
        return blocked(END, f"the job is {job.value.phase.value}: it has not ended")
    return passed(END, f"the job is over: {job.value.phase.value}; its watch may end")


def _open(context: ActionContext, key: str) -> Alert | None:
    return next((alert for alert in context.report.alerts if alert.key == key), None)


async def _take(execution: Execution) -> str:
    store = execution.context.parts.store
    if store is None:
        raise StepError("no store to write the acknowledgement into")
    try:
        await offload(lambda: _write(execution, store), deadline=DEADLINE)
    except (StoreError, TimeoutError) as error:
        raise StepError(f"it could not be written: {error}") from error
    return f"{execution.facts['key']} acknowledged by {_whose(execution)}"


def _whose(execution: Execution) -> str:
    """Return who has taken it and, where that is another, who typed that."""
    by, typed = execution.facts["by"], execution.entry.operator
    return by if same_person(by, name_in(typed)) else worded(by, typed)


def _write(execution: Execution, store: Store) -> None:
    """Write it; an alert that no watch has stored yet is stored with it. Blocking."""
    context, facts = execution.context, execution.facts
    key, by, at = facts["key"], _whose(execution), execution.entry.begun_at
    if key == END:
        if facts["until"] == NOW:
            Endings(store).withdraw(context.key, *job_in(facts))
        else:
            Endings(store).acknowledge(context.key, *job_in(facts), by, at)
        return
    taken = Acknowledgement(by=by, at=at, until=_instant(facts["until"], at))
    alerts, reason = Alerts(store), facts["reason"] or None
    with store.writing():
        if alerts.acknowledge(context.key, key, taken, reason):
            return
        alert = _open(context, key)
        if alert is None:
            raise StoreError(f"{key} closed meanwhile")
        alerts.save(context.key, [Kept(alert=alert, opened_at=context.now, seen=True)])
        alerts.acknowledge(context.key, key, taken, reason)


def _tells(execution: Execution) -> tuple[Told, ...]:
    """Return who has taken what, for every other account that watches the run."""
    facts, at = execution.facts, execution.entry.begun_at
    alert = _open(execution.context, facts["key"])
    end = _instant(facts["until"], at)
    parts = {
        "severity": "" if alert is None else alert.severity.value,
        "since": "" if alert is None else rfc3339(alert.since),
        "by": facts["by"],
        "until": "" if end is None else rfc3339(end),
        "job": facts["job"],
        "started": rfc3339(float(facts[STARTED])) if facts[STARTED] else "",
        "reason": facts["reason"],
    }
    told = Told(
        what=ACKNOWLEDGED, value=facts["key"], at=at, typed_by=execution.entry.operator, parts=parts
    )
    return (told,)


def _entry(execution: Execution) -> EventEntry:
    facts = execution.facts
    alert = _open(execution.context, facts["key"])
    end = _instant(facts["until"], execution.entry.begun_at)
    until = "" if end is None else f" until {rfc3339(end)}"
    what = "the run's end" if facts["key"] == END else facts["key"]
    return EventEntry(
        title=f"acknowledged {what}",
        at=execution.entry.begun_at,
        status=f"acknowledged by {worded(facts['by'], execution.entry.operator)}{until}",
        evidence="" if alert is None else alert.title,
        decision=facts["reason"],
        next="" if alert is None else alert.next_action,
    )
