"""A-9, escalate: to the DRI, by notification and issue comment, with the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.actions.core.action import (
    REACH,
    Execution,
    PageAction,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
)
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural, text_param
from cockpit.actions.core.recording import (
    comment_step,
    event_name,
    issue_check,
    log_step,
    logbook_check,
)
from cockpit.model.alert import Severity
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventEntry, Recorded
from cockpit.model.report import RunReport
from cockpit.model.shared_facts import NOTIFIED, Told
from cockpit.model.wording import utc_minute
from cockpit.notify.message import NobodyReachedError
from cockpit.records.issue.text import escalated
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.scrub import scrub

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
            dri = blocked("dri", text, Basis.RECORDED)
        else:
            dri = passed("dri", f"to {spec.dri}, the DRI", Basis.RECORDED, spec.dri)
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
            log_step(_entry, f"{plan.run}: log escalation", tells=_tells),
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
        return passed("routes", f"{plural(len(going), 'route')} in [notify]", Basis.RECORDED)
    text = "no route in [notify]: no notification goes out"
    if routes:
        least = ", ".join(sorted({each.min for each in routes}))
        text = f"no route in [notify] takes a message of severity {severity.value} (min: {least})"
    if context.spec.records.issue is not None:
        return warned("routes", text, Basis.RECORDED)
    text += ", and no issue either: nobody would be told"
    return blocked("routes", text, Basis.RECORDED)


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


def _tells(execution: Execution) -> tuple[Told, ...]:
    """Return that the DRI knows, for the next owner and for whoever acts from elsewhere."""
    dri, entry = execution.context.spec.dri, execution.entry
    if dri is None or TOLD not in execution.facts:
        return ()
    return (Told(what=NOTIFIED, value=dri, at=entry.begun_at, typed_by=entry.operator),)


def _entry(execution: Execution) -> EventEntry:
    plan = execution.plan
    return EventEntry(
        title=f"escalated to {execution.context.spec.dri}",
        at=execution.entry.begun_at,
        status=plan.facts["title"],
        evidence=plan.page or "",
        decision=plan.facts["note"] or f"escalated by {execution.entry.operator}",
        next=_next(execution),
    )


def _next(execution: Execution) -> str:
    dri = execution.context.spec.dri
    return f"wait for {dri}" if TOLD in execution.facts else f"tell {dri}: {NOBODY_YET}"
