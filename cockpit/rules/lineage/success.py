"""C-19 and C-24: what is missing after a success, and records that are overdue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.observed import Checkpoint, CheckpointState, Phase, RecordsValue
from cockpit.model.report import RunReport
from cockpit.model.run import EVENT, NEVER, RunSpec, log_period
from cockpit.model.wording import with_code
from cockpit.rules import present
from cockpit.rules.jobs.terminal import diagnosis, triage_evidence
from cockpit.rules.metrics.progress import current_step, reached
from cockpit.rules.present import (
    phase_of,
    phase_since,
    seal_of,
    seen_after_end,
    seen_at,
    still_open,
)

SHORTEST = 0.5
"""The share of the expected duration below which an end is suspiciously early."""

SEAL_WITHIN = 86400.0
"""Seconds after its success within which a hero run is sealed."""


def success_without_artifacts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-19: what is missing is said at once, the logbook entry after one cadence.

    What cannot be seen is not missing. A run with everything in place waits to be sealed,
    which is a next action and no alert.
    """
    if phase_of(history) is not Phase.SUCCEEDED:
        return
    unfinished = tuple(
        line for check in (_short, _log_says_stopped) for line in check(run, history)
    )
    checks = (_checkpoint, _tracker, _early, _logbook)
    missing = (*unfinished, *(line for check in checks for line in check(run, history)))
    if not missing:
        yield from _unsealed(run, history)
        return
    ordered = history.stop_ordered_by if unfinished else None
    title = (
        f"Not a success: {missing[0].text}"
        if unfinished
        else f"Exited with success, but {missing[0].text}"
    )
    yield Alert(
        key=f"C-19:{run.name}",
        severity=Severity.ALERT if ordered is None else Severity.INFO,
        title=title if ordered is None else f"Stopped by {ordered}: {missing[0].text}",
        since=phase_since(history),
        no_success=bool(unfinished),
        evidence=(*missing, *_ending_evidence(history, bool(unfinished))),
        confidence="sure" if len(missing) > 1 else "likely",
        next_action=_next(run, history, bool(unfinished)),
    )


def _unsealed(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield the reminder that a run with everything in place was not sealed for a day.

    Where the repository cannot be asked, whether another machine has sealed it is not known.
    """
    code, ended, key = history.facets.code, phase_since(history), f"C-19:{run.name}:seal"
    due = ended + SEAL_WITHIN
    if run.tier != "hero" or seal_of(history) or seen_at(history.facets.job, history.now) <= due:
        return
    if code.configured and not code.known:
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    text = f"it succeeded at {wording.moment(ended)}; limit {wording.span(SEAL_WITHIN)}"
    yield Alert(
        key=key,
        severity=Severity.INFO,
        title="Finished, not sealed yet",
        since=due,
        evidence=(Evidence(text=text, source=history.facets.job.source),),
        next_action=f"seal {run.name}",
    )


def _log_says_stopped(run: RunSpec, history: History) -> Iterator[Evidence]:
    """Yield that the log speaks of a stop: an exit status of 0 is then no word of success."""
    found = diagnosis(history)
    if found is None or found.name in ("success", "unknown"):
        return
    what = "it was told to stop" if found.name == "user_stopped" else wording.cause(found.name)
    text = f"{what} before it exited with 0: it is not known to have finished"
    yield Evidence(text=text, source=history.facets.log.source)


def _ending_evidence(history: History, unfinished: bool) -> Iterator[Evidence]:
    found = diagnosis(history) if unfinished else None
    if found is not None and found.name != "success":
        yield from triage_evidence(history.facets.log.source, found)


def _next(run: RunSpec, history: History, unfinished: bool) -> str:
    if not unfinished:
        return f"do not seal {run.name}: find what is missing first"
    if history.stop_ordered_by is not None:
        return "nothing to do: it was stopped on purpose"
    found = diagnosis(history)
    who = wording.person(run)
    if found is not None and found.name == "user_stopped":
        return f"ask {who} who stopped it and why; do not seal {run.name}"
    if found is not None and found.action == "relaunch":
        return f"relaunch {run.name}; do not seal it"
    return f"find out why it ended early, then relaunch {run.name}; do not seal it"


def _short(run: RunSpec, history: History) -> Iterator[Evidence]:
    step, final = current_step(history), run.final_step
    if step is None or final is None or not fell_short(run, history):
        return
    text = f"it ended at step {wording.step(step)} of {wording.step(final)}"
    yield Evidence(text=text, source=history.facets.tracker.source)


def fell_short(run: RunSpec, history: History) -> bool | None:
    """Tell whether a job ended before its final step; ``None`` where that is not known.

    The end need not be logged: as many steps may be missing as between two logged ones.
    """
    step, facets = current_step(history), history.facets
    if run.final_step is None:
        return None
    if _final_saved(run, history):
        return False
    if not (seen_after_end(facets.tracker, history) or seen_after_end(facets.log, history)):
        return None
    logged = (at for at, _ in history.trend.pace.recent)
    spacing = max((later - earlier - 1 for earlier, later in pairwise(logged)), default=0)
    return None if step is None else not reached(step + spacing, run.final_step)


def _final_saved(run: RunSpec, history: History) -> bool:
    value = history.facets.checkpoints.value
    items = value.items if value is not None else ()
    return run.final_step is not None and any(
        item.state is CheckpointState.COMPLETE
        and item.step is not None
        and reached(item.step, run.final_step)
        for item in items
    )


def _may_be_final(item: Checkpoint, final_step: int) -> bool:
    """Tell of one in an unknown state that may hold the final step: it is not missing."""
    if item.state is not CheckpointState.UNKNOWN:
        return False
    if item.unrecognised:  # what its name tells is a guess
        return True
    step = item.any_step
    return step is None or reached(step, final_step)


def _checkpoint(run: RunSpec, history: History) -> Iterator[Evidence]:
    if run.final_step is None or not seen_after_end(history.facets.checkpoints, history):
        return
    value = history.facets.checkpoints.value
    if _final_saved(run, history) or (value is not None and value.unlisted):
        return
    if value is not None and any(_may_be_final(item, run.final_step) for item in value.items):
        return
    text = f"no complete checkpoint of the final step {wording.step(run.final_step)}"
    yield Evidence(text=text, source=history.facets.checkpoints.source)


def _tracker(run: RunSpec, history: History) -> Iterator[Evidence]:
    tracker = history.facets.tracker
    if tracker.value is None or not seen_after_end(tracker, history):
        return
    if tracker.value.finished or not tracker.value.kind.records_end:
        return
    text = with_code(f'the tracker says "{tracker.value.state}"', tracker.value.exit_code)
    yield Evidence(text=text, source=tracker.source)


def _early(run: RunSpec, history: History) -> Iterator[Evidence]:
    """Yield only where the whole history was read: a resumed job is short by itself."""
    began = history.trend.pace.first_at
    if run.expected_duration is None or began is None or history.rows_from > 0:
        return
    lasted = phase_since(history) - began
    if lasted >= SHORTEST * run.expected_duration:
        return
    text = (
        f"it ran for {wording.span(lasted)} of the expected {wording.span(run.expected_duration)}"
    )
    yield Evidence(text=text, source="logged rows")


def _logbook(run: RunSpec, history: History) -> Iterator[Evidence]:
    records = history.facets.records
    if run.tier != "hero" or run.records.logbook is None or records.value is None:
        return
    ended = phase_since(history)
    if seen_at(records, history.now) - ended <= run.cadence:
        return
    last = records.value.last_entry_at
    if last is None or last < ended:
        yield Evidence(text="the logbook has no entry since it ended", source=records.source)


QUIET: Final = 2
ISSUE_EVERY: Final = 86400.0
"""Seconds that an issue may go without an update (C-24): a day."""
MINUTE: Final = 60.0
"""Entries carry their time in minutes: one of the event's own minute counts as after it."""
_REPORTED_ELSEWHERE: Final = ("C-03", "C-19", "C-24")
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
        if _contradicts_success(alert):
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
    times += [each.since for each in report.alerts if _contradicts_success(each)]
    return max((at for at in times if at is not None), default=None)


def _contradicts_success(alert: Alert) -> bool:
    return alert.severity.rank >= Severity.ALERT.rank and alert.id not in _REPORTED_ELSEWHERE


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
        key=f"C-24:{run.name}:{cause}",
        title=title,
        since=since,
        evidence=present.evidence(history.facets.records.source, text),
        next_action=steps[cause],
    )
