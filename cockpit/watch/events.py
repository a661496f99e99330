"""What has happened to a run between two reports of it, one document each (``watch --events``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cockpit.model.alert import Alert
from cockpit.model.base import rfc3339
from cockpit.model.report import RunReport

Event = dict[str, Any]


def events(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    """Yield what is new, in this order: verdict, job, alerts, acknowledgements, agents.

    Each has ``schema``, ``at``, ``run`` and ``event``. Of a run that is seen for the first time
    everything is new but what is over. An alert that came and went between two looks is told as
    opened and as closed.
    """
    head = {"schema": 1, "at": rfc3339(new.checked_at), "run": new.name}
    found = (*_verdict(old, new), *_job(old, new), *_alerts(old, new), *_agents(old, new))
    yield from ({**head, **each} for each in found)


def _verdict(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = None if old is None else old.verdict.value
    if before != new.verdict.value:
        yield {"event": "verdict", "from": before, "to": new.verdict.value}


def _job(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before, now = (None if old is None else old.facets.job.value), new.facets.job.value
    if now is not None and (before is None or (before.id, before.phase) != (now.id, now.phase)):
        yield {"event": "job", "phase": now.phase.value, "id": now.id, "reason": now.reason}


def _alerts(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = {} if old is None else {each.key: each for each in old.alerts}
    now = {each.key: each for each in new.alerts}
    yield from (_alert("opened", each) for key, each in now.items() if key not in before)
    yield from (_alert("closed", each) for key, each in before.items() if key not in now)
    for each in _passed(old, new):
        yield from (_alert(event, each) for event in ("opened", "closed"))
    for key, each in now.items():
        taken, former = each.acknowledged, before.get(key)
        if taken is not None and (former is None or former.acknowledged != taken):
            yield {**_alert("acknowledged", each), "by": taken.by}


def _passed(old: RunReport | None, new: RunReport) -> Iterator[Alert]:
    """Yield the alerts that opened and closed within the run's rows since the former report."""
    if old is None:
        return
    known = {(each.alert.key, each.alert.since) for each in old.closed}
    for closed in reversed(new.closed):  # the newest first
        alert = closed.alert
        unseen = alert.span is not None and alert.span.passed
        if unseen and (alert.key, alert.since) not in known:
            yield alert


def _alert(event: str, alert: Alert) -> Event:
    severity = alert.severity.value
    told = {"id": alert.id, "key": alert.key, "severity": severity, "title": alert.title}
    return {"event": event, **told}


def _agents(old: RunReport | None, new: RunReport) -> Iterator[Event]:
    before = {} if old is None else {act.number: act.stage for act in old.agents}
    for act in new.agents:
        if before.get(act.number) is not act.stage:
            until = None if act.until is None else rfc3339(act.until)
            by = {} if act.by is None else {"by": act.by}
            yield {"event": "agent", "agent": act.agent, "action": act.action,
                   "stage": act.stage.value, "until": until, **by}  # fmt: skip
