"""How an alert is told in a message: what, since when, on what evidence, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.alert import Severity
from cockpit.model.report import RunReport
from cockpit.model.words import UNKNOWN, duration, utc_minute
from cockpit.notify.message import Message
from cockpit.watch.due import Due

EVIDENCE_SHOWN: Final = 5
RUNS_NAMED: Final = 8


def message_of(due: Due, now: float, second: str | None) -> Message:
    """Return the message for one due event; ``second`` is the second person's name."""
    report, alert = due.report, due.alert
    tracker = report.facets.tracker.value
    return Message(
        run=report.name,
        event=due.event,
        title=f"{_head(due, now, second)} {report.name}: {alert.id} {alert.title}",
        body="" if due.stage == "closed" else "\n".join(_body(due)),
        severity=alert.severity,
        url=None if tracker is None or due.stage == "closed" else tracker.url,
    )


def _head(due: Due, now: float, second: str | None) -> str:
    waited = duration(max(0.0, now - due.since))
    if due.stage == "again":
        return f"[critical, taken by nobody for {waited}]"
    if due.stage == "second":
        return f"[critical, for {second}: taken by nobody for {waited}]"
    return "[closed]" if due.stage == "closed" else f"[{due.alert.severity.value}]"


def _body(due: Due) -> Iterator[str]:
    report, alert = due.report, due.alert
    yield f"since {_moment(alert.since)} ({alert.confidence}); {_state(report)}"
    yield from (f"- {each.text} [{each.source}]" for each in alert.evidence[:EVIDENCE_SHOWN])
    yield f"next: {alert.next_action}"
    if report.spec.dri is not None:
        yield f"DRI: {report.spec.dri}"
    yield f"to take it: cockpit ack {report.name} {shlex.quote(alert.key)} --by NAME"


def _state(report: RunReport) -> str:
    job = report.facets.job.value
    phase = "unknown" if job is None else job.phase.value
    return f"job {phase}, step {report.progress.text}"


def _moment(instant: float) -> str:
    told = utc_minute(instant)
    return "an unknown time" if told == UNKNOWN else told


def summary_of(runs: Sequence[str], events: Sequence[str], event: str) -> Message:
    """Return the one message for what the rate limit kept back; ``runs`` name one per event."""
    names = list(dict.fromkeys(runs))
    critical = sum(each.endswith((" critical", " again", " second")) for each in events)
    worst = f" ({critical} critical)" if critical else ""
    plural = "s" if len(events) != 1 else ""
    where = f"{len(names)} run{'s' if len(names) != 1 else ''}"
    shown = ", ".join(names[:RUNS_NAMED]) + (", …" if len(names) > RUNS_NAMED else "")
    return Message(
        run=", ".join(names),
        event=event,
        title=f"{len(events)} more alert{plural} in {where}{worst}",
        body=f"{shown}\nmore came than one route is sent in ten minutes; see `cockpit check`",
        severity=Severity.CRITICAL if critical else Severity.ALERT,
    )
