"""A-14, acknowledge or snooze an alert; and A-9, escalate one to the owner with evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from cockpit.actions.core.action import (
    NOW,
    REACH,
    STARTED,
    Action,
    ActionContext,
    Execution,
    PageAction,
    RefuseError,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    job_in,
    plural,
    safe,
    text_param,
    until_instant,
    until_param,
)
from cockpit.actions.core.recording import (
    comment_step,
    event_name,
    issue_check,
    log_step,
    logbook_check,
    shared_fact,
    stored,
)
from cockpit.model import check_rows as rows
from cockpit.model.alert import Acknowledgement, Alert, Severity
from cockpit.model.base import rfc3339
from cockpit.model.plan import Check, Draft, Plan, Request
from cockpit.model.records import EventText, Recorded
from cockpit.model.report import RunReport
from cockpit.model.shared_facts import (
    ACKNOWLEDGED,
    NOTIFIED,
    SharedFact,
    is_agent,
    name_in,
    same_person,
    worded,
)
from cockpit.model.wording import utc_minute
from cockpit.notify.message import NobodyReachedError
from cockpit.records.issue.service import escalated
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.launches import Endings
from cockpit.store.store import Store, StoreError
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.scrub import scrub

END: Final = "end"


class Acknowledge(Action):
    """Takes an alert through the store, where every cockpit and watch of the run sees it."""

    verb = "ack"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be taken; a key that is not open is told with those that are."""
        key = (request.params.get("key") or "").strip()
        until = until_param(request.params.get("until"), context.now)
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
        yield finding(rows.WHOSE_WORD, text, value=by)


def _checks(context: ActionContext, key: str, until: str | None) -> Iterator[Check]:
    if key == END:
        yield _over(context)
        return
    alert = _open(context, key)
    if alert is None:
        keys = ", ".join(each.key for each in context.report.alerts) or "none"
        yield blocked(rows.ALERT, f"no alert {safe(key)!r} is open; open: {keys}")
        return
    yield passed(rows.ALERT, f"{alert.severity.value}: {alert.title}", value=alert.key)
    if until == NOW:
        yield finding(rows.UNTIL, "its acknowledgement ends: it alerts again")
    elif alert.acknowledged is not None:
        by = alert.acknowledged.by
        yield finding(rows.TAKEN, f"already acknowledged by {by}")


def _over(context: ActionContext) -> Check:
    job = context.report.facets.job
    if context.spec.job is None:
        tracker = context.report.facets.tracker.value
        if tracker is not None and tracker.exit_code is not None:
            return passed(rows.RUN_OVER, f"the tracker says that it ended with {tracker.exit_code}")
        return blocked(rows.RUN_OVER, "cannot tell that the run is over")
    if not job.known or job.value is None:
        return blocked(rows.RUN_OVER, "the job's state is unknown: its end cannot be acknowledged")
    if not job.value.phase.terminal:
        return blocked(rows.RUN_OVER, f"the job is {job.value.phase.value}: it has not ended")
    return passed(rows.RUN_OVER, f"the job is over: {job.value.phase.value}; its watch may end")


def _open(context: ActionContext, key: str) -> Alert | None:
    return next((alert for alert in context.report.alerts if alert.key == key), None)


async def _take(execution: Execution) -> str:
    await stored(execution, partial(_write, execution), "the acknowledgement")
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
    taken = Acknowledgement(by=by, at=at, until=until_instant(facts["until"], at))
    alerts, reason = Alerts(store), facts["reason"] or None
    with store.writing():
        if alerts.acknowledge(context.key, key, taken, reason):
            return
        alert = _open(context, key)
        if alert is None:
            raise StoreError(f"{key} closed meanwhile")
        alerts.save(context.key, [Kept(alert=alert, opened_at=context.now, seen=True)])
        alerts.acknowledge(context.key, key, taken, reason)


def _tells(execution: Execution) -> tuple[SharedFact, ...]:
    """Return who has taken what, for every other account that watches the run."""
    facts, at = execution.facts, execution.entry.begun_at
    alert = _open(execution.context, facts["key"])
    end = until_instant(facts["until"], at)
    parts = {
        "severity": "" if alert is None else alert.severity.value,
        "since": "" if alert is None else rfc3339(alert.since),
        "by": facts["by"],
        "until": "" if end is None else rfc3339(end),
        "job": facts["job"],
        "started": rfc3339(float(facts[STARTED])) if facts[STARTED] else "",
        "reason": facts["reason"],
    }
    return (shared_fact(execution, ACKNOWLEDGED, facts["key"], parts),)


def _entry(execution: Execution) -> EventText:
    facts = execution.facts
    alert = _open(execution.context, facts["key"])
    end = until_instant(facts["until"], execution.entry.begun_at)
    until = "" if end is None else f" until {rfc3339(end)}"
    what = "the run's end" if facts["key"] == END else facts["key"]
    return EventText(
        title=f"acknowledged {what}",
        status=f"acknowledged by {worded(facts['by'], execution.entry.operator)}{until}",
        evidence="" if alert is None else alert.title,
        decision=facts["reason"],
        next="" if alert is None else alert.next_action,
    )


EVIDENCE_SHOWN = 6
TOLD = "told"
"""The fact that somebody has been told by now, and how."""
WAITS, REFUSED = "comment-waits", "comment-refused"
"""The facts that hold why the issue's comment did not come through."""
BY_NOTIFICATION, BY_COMMENT = "a notification", "a comment on the issue"
NOBODY_YET = "nobody has been told yet"


class Escalate(PageAction):
    """Tells the DRI what is wrong, since when, on what evidence, and what is asked of them."""

    verb = "escalate"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return the message and who gets it; a run without a DRI has nobody to escalate to."""
        note = text_param(request, "note", lines=True)
        spec, report = context.spec, context.report
        evidence = tuple(
            each for alert in report.alerts for each in alert.evidence[:EVIDENCE_SHOWN]
        )
        severity = Severity.ALERT if report.worst is None else report.worst.severity
        reason = "\n".join(filter(None, (_title(report), note)))
        if spec.dri is None:
            text = "no DRI in cockpit.toml: nobody to escalate to"
            dri = blocked(rows.ESCALATED_TO, text)
        else:
            dri = passed(rows.ESCALATED_TO, f"to {spec.dri}, the DRI", value=spec.dri)
        return Draft(
            words=f"escalate {spec.name}",
            checks=(dri, _routes(context, severity), issue_check(spec), logbook_check(spec)),
            page=message(report, context.typed_by, note),
            facts={
                "title": _title(report),
                "severity": severity.value,
                "note": note,
                # The same text, with every foreign word kept from meaning anything.
                "comment": escalated(spec, by=context.typed_by, reason=reason, evidence=evidence),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: notify, comment, log, and see whether anybody has been told by now."""
        return (
            Step("notify", _notify),
            comment_step(
                event_name, lambda execution: execution.plan.facts["comment"], heard=_commented
            ),
            log_step(_escalation, f"{plan.run}: log escalation", tells=_escalation_facts),
            Step(REACH, _reached),
        )


def message(report: RunReport, operator: str, note: str) -> str:
    """Return what the DRI reads, as Markdown, scrubbed."""
    return scrub("\n".join(_lines(report, operator, note)) + "\n")


def _lines(report: RunReport, operator: str, note: str) -> Iterator[str]:
    yield f"**{report.name}**: {_title(report)}"
    yield ""
    yield f"- Escalated by {operator} to {report.spec.dri or 'the DRI'}"
    yield f"- Verdict: {report.verdict.value}; progress {report.progress.words}"
    yield f"- Next safe action: {report.next_action}"
    if note:
        yield f"- Decision needed: {note}"
    for alert in report.alerts:
        yield ""
        since = f"{utc_minute(alert.since)}{alert.or_before}"
        yield f"**{alert.id} {alert.severity.value}**: {alert.title}, since {since}"
        yield "```"
        yield from (
            f"{each.text.replace('```', chr(39) * 3)}  [{each.source}]"
            for each in alert.evidence[:EVIDENCE_SHOWN]
        )
        yield "```"


def _title(report: RunReport) -> str:
    worst = report.worst
    return report.next_action if worst is None else f"{worst.id} {worst.title}"


def _routes(context: ActionContext, severity: Severity) -> Check:
    """Return whether a message of this severity goes anywhere; only reaching nobody blocks."""
    routes = context.file.notify.routes
    going = [each for each in routes if severity.rank >= Severity(each.min).rank]
    if going:
        return passed(rows.ROUTES, f"{plural(len(going), 'route')} in [notify]")
    text = "no route in [notify]: no notification goes out"
    if routes:
        least = ", ".join(sorted({each.min for each in routes}))
        text = f"no route in [notify] takes a message of severity {severity.value} (min: {least})"
    if context.spec.records.issue is not None:
        return warned(rows.ROUTES, text)
    text += ", and no issue either: nobody would be told"
    return blocked(rows.ROUTES, text)


async def _notify(execution: Execution) -> str | None:
    """Reach the DRI; where an issue is there to carry the news, failing to is no end."""
    context, facts = execution.context, execution.plan.facts
    try:
        said = await context.parts.notifier().send(
            context.spec,
            event_name(execution),
            f"{context.spec.name}: {facts['title']}",
            execution.plan.page or "",
            facts["severity"],
        )
        await execution.note(**{TOLD: BY_NOTIFICATION})
        return said
    except NobodyReachedError as error:
        if context.spec.records.issue is not None:
            raise SkipStep(f"{error}; the issue carries it") from error
        raise StepError(str(error)) from error


async def _commented(execution: Execution, comment: Recorded) -> None:
    """Note whether the comment stands there; one that waits has told nobody yet."""
    if comment.lasting and not comment.queued:
        await execution.note(**{TOLD: execution.facts.get(TOLD) or BY_COMMENT})
    elif TOLD not in execution.facts:
        name = WAITS if comment.queued else REFUSED
        await execution.note(**{name: comment.trouble or ""})


async def _reached(execution: Execution) -> str | None:
    """Raise unless somebody was told: an escalation that nobody has heard of is not done."""
    if TOLD in execution.facts:
        return f"by {execution.facts[TOLD]}"
    who = execution.context.spec.dri or "the owner"
    if WAITS in execution.facts:
        why = f"the comment waits: {execution.facts[WAITS]}"
        raise StepUnknownError(f"{NOBODY_YET}: {why}; tell {who} yourself")
    why = execution.facts.get(REFUSED) or "no notification and no comment went out"
    raise StepError(f"nobody was told: {why}; tell {who} yourself")


def _escalation_facts(execution: Execution) -> tuple[SharedFact, ...]:
    """Return that the DRI knows, for the next owner and for whoever acts from elsewhere."""
    dri = execution.context.spec.dri
    if dri is None or TOLD not in execution.facts:
        return ()
    return (shared_fact(execution, NOTIFIED, dri),)


def _escalation(execution: Execution) -> EventText:
    plan = execution.plan
    dri = execution.context.spec.dri
    return EventText(
        title=f"escalated to {execution.context.spec.dri}",
        status=plan.facts["title"],
        evidence=plan.page or "",
        decision=plan.facts["note"] or f"escalated by {execution.entry.operator}",
        next=f"wait for {dri}" if TOLD in execution.facts else f"tell {dri}: {NOBODY_YET}",
    )
