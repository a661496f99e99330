"""C-24, records overdue: a reminder to whoever keeps a hero run's logbook and issue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Phase, RecordsValue
from cockpit.model.report import RunReport
from cockpit.model.run import EVENT, NEVER, RunSpec, log_period
from cockpit.rules import present
from cockpit.rules.present import phase_of, phase_since, seen_at

QUIET: Final = 2
ISSUE_EVERY: Final = 86400.0
MINUTE: Final = 60.0
"""Entries carry their time in minutes: one of the event's own minute counts as after it."""
_TOLD_ELSEWHERE: Final = ("C-03", "C-19", "C-24")
"""The monitor says nothing of the run; C-19 asks for the entry at the end of a run by itself."""


def records_overdue(run: RunSpec, history: History, alerts: Sequence[Alert]) -> Iterator[Alert]:
    """C-24: entry overdue, issue silent for 24 h, logbook not pushed; one alert for each cause.

    ``alerts`` are the conditions that hold, the events that an entry is due for. Judged as of
    the moment the records were seen; what is unknown is not overdue.
    """
    value = history.facets.records.value
    if run.tier != "hero" or value is None:
        return
    if run.records.logbook is not None:
        yield from _entry(run, history, value, alerts)
        yield from _push(run, history, value)
    if run.records.issue is not None:
        yield from _issue(run, history, value)


def _entry(
    run: RunSpec, history: History, value: RecordsValue, alerts: Sequence[Alert]
) -> Iterator[Alert]:
    seen, last = seen_at(history.facets.records, history.now), value.last_entry_at
    waiting = [
        (at, what)
        for at, what in _events(history, alerts)
        if (last is None or last + MINUTE <= at) and seen - at > run.cadence
    ]
    if waiting:
        at, what = min(waiting)
        limit = f"limit 1 cadence of {wording.span(run.cadence)}"
        text = f"{what} at {wording.moment(at)}; {_last(last)}; {limit}"
        yield _alert(run, history, "logbook", at + run.cadence, text, "Logbook entry overdue")
        return
    quiet = _quiet_since(run, history, last)
    if quiet is not None:
        every, at = quiet
        limit = f"limit {QUIET} cadences of {wording.span(every)}"
        text = f"{_last(last)}; {limit}"
        yield _alert(run, history, "logbook", at, text, "Logbook entry overdue")


def _quiet_since(run: RunSpec, history: History, last: float | None) -> tuple[float, float] | None:
    """Return the period, and since when the logbook of a living job is silent for too long."""
    every = entry_every(run)
    if every is None or not phase_of(history).lives:
        return None
    job = history.facets.job if history.job_named else history.facets.tracker
    until = min(seen_at(history.facets.records, history.now), seen_at(job, history.now))
    base = phase_since(history) if last is None else last + MINUTE
    limit = base + QUIET * every
    return (every, limit) if until > limit else None


def _push(run: RunSpec, history: History, value: RecordsValue) -> Iterator[Alert]:
    """Yield for a logbook that stayed unpushed: an entry just written is on its way."""
    last = value.last_entry_at
    seen = seen_at(history.facets.records, history.now)
    if value.pushed is not False:
        return
    first = last if last is not None else next((mark.at for mark in history.phases), None)
    if first is None or seen - first <= run.cadence + MINUTE:
        return
    since = first + run.cadence + MINUTE
    why = value.held or "changes are not committed or not pushed"
    text = f"{value.logbook}: {why}; {_last(last)}"
    yield _alert(run, history, "push", since, text, "Logbook not pushed")


def _issue(run: RunSpec, history: History, value: RecordsValue) -> Iterator[Alert]:
    updated, seen = value.issue_updated_at, value.issue_seen_at
    if not phase_of(history).lives or updated is None or seen is None:
        return
    if min(seen, history.now) - updated <= ISSUE_EVERY:
        return
    text = (
        f"{value.issue} last updated {wording.moment(updated)}; limit {wording.span(ISSUE_EVERY)}"
    )
    yield _alert(run, history, "issue", updated + ISSUE_EVERY, text, "No issue update for 24 h")


def _events(history: History, alerts: Sequence[Alert]) -> Iterator[tuple[float, str]]:
    """Yield when and what a logbook should tell of: changes of the job, alerts that are open."""
    marks = [mark for mark in history.phases if mark.phase is not Phase.UNKNOWN]
    for former, mark in pairwise(marks):
        changed = (former.phase, former.job_id) != (mark.phase, mark.job_id)
        if changed and mark.phase is not Phase.SUCCEEDED:
            yield mark.at, f"the job was seen {mark.phase.value}"
    for alert in alerts:
        if _tells(alert):
            yield alert.since, f"{alert.id} ({alert.title})"


def entry_every(run: RunSpec) -> float | None:
    """Return seconds between two entries as the run file asks for; ``None``: at no period."""
    if run.records.log_every in (NEVER, EVENT):
        return None
    try:
        return log_period(run.records.log_every or "1 cadence", run.cadence)
    except ValueError:
        return run.cadence


def newest_event(report: RunReport) -> float | None:
    """Return when something last happened that a logbook should tell of, as a report shows it."""
    job = report.facets.job.value
    times = [] if job is None else [job.started_at, job.ended_at]
    times += [each.since for each in report.alerts if _tells(each)]
    return max((at for at in times if at is not None), default=None)


def _tells(alert: Alert) -> bool:
    return alert.severity.rank >= Severity.ALERT.rank and alert.id not in _TOLD_ELSEWHERE


def _last(last: float | None) -> str:
    return "no entry with a time" if last is None else f"last entry at {wording.moment(last)}"


def _alert(
    run: RunSpec, history: History, cause: str, since: float, text: str, title: str
) -> Alert:
    steps = {
        "logbook": f"log what happened: log {run.name}",
        "push": "push the logbook",
        "issue": f"post a short status to the issue of {run.name}",
    }
    return Alert(
        id="C-24",
        key=f"C-24:{run.name}:{cause}",
        severity=Severity.INFO,
        title=title,
        since=since,
        evidence=present.evidence(history.facets.records.source, text),
        confidence="sure",
        next_action=steps[cause],
    )
