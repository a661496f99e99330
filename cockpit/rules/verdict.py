"""The one word for a run's health, and the one line that says what to do next (SPEC C)."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import ErrorKind
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.doubts import doubt
from cockpit.rules.present import phase_of

_ATTENTION = (Severity.WARNING, Severity.ALERT)


def verdict(run: RunSpec, history: History, alerts: Sequence[Alert]) -> Verdict:
    """Return SPEC C's verdict.

    Critical if a critical is open, attention if a warning or alert is (C-03 apart), unknown
    if job, log and tracker all are or the log lags more than a cadence, finished when the job is
    over (sealed when it succeeded and has its seal), else healthy, unless there is a doubt. An
    acknowledged alert is still open.
    """
    found = of_alerts(alerts)
    if found is not None:
        return found
    if _all_dark(history) or present.log_behind(run, history) is not None:
        return Verdict.UNKNOWN
    if not phase_of(history).terminal:
        return Verdict.HEALTHY if doubt(run, history) is None else Verdict.UNKNOWN
    return Verdict.SEALED if seal_of(history) is not None else Verdict.FINISHED


def of_alerts(alerts: Sequence[Alert]) -> Verdict | None:
    """Return what the open alerts alone say, ``None`` where they leave it to the facets."""
    own = [alert.severity for alert in alerts if alert.id != "C-03"]
    if Severity.CRITICAL in own:
        return Verdict.CRITICAL
    return Verdict.ATTENTION if any(severity in _ATTENTION for severity in own) else None


def seal_of(history: History) -> str | None:
    """Return what seals the run: its tag, else who sealed it; only success is ever sealed."""
    if phase_of(history) is not Phase.SUCCEEDED:
        return None
    code = history.facets.code.value
    tag = code.sealed if code is not None else None
    return tag or history.sealed_by


def _all_dark(history: History) -> bool:
    facets = history.facets
    return not (facets.job.known or facets.log.known or _tracker_tells(history))


def _tracker_tells(history: History) -> bool:
    """Tell whether the tracker says anything of how the run is: a silent empty file does not."""
    tracker = history.facets.tracker
    value = tracker.value
    empty = value is not None and value.state == "silent" and value.last_step_at is None
    return tracker.known and not empty


def next_action(run: RunSpec, history: History, alerts: Sequence[Alert]) -> str:
    """Return the next safe action: of the worst alert nobody has taken, else by the verdict."""
    taken = {alert.key for alert in alerts if alert.acknowledged is not None}
    for alert in alerts:
        own = alert.key not in taken and alert.caused_by not in taken
        if own and alert.severity is not Severity.INFO:
            return alert.next_action
    word = verdict(run, history, alerts)
    if word is Verdict.UNKNOWN or history.not_read_yet is not None:
        return _to_know_more(run, history)
    if word is Verdict.FINISHED:
        early = next((alert.next_action for alert in alerts if alert.no_success), None)
        other = early or (alerts[0].next_action if alerts else "nothing; the job is over")
        sealable = phase_of(history) is Phase.SUCCEEDED and early is None
        return _as_far_as_read(f"seal {run.name}" if sealable else other, history)
    if word is Verdict.SEALED:
        return _as_far_as_read(f"nothing; it is sealed ({seal_of(history)})", history)
    if word is Verdict.HEALTHY:
        return _as_far_as_read("nothing to do until the next check", history)
    return "nothing new: what is open has been acknowledged"


def _to_know_more(run: RunSpec, history: History) -> str:
    """Return what to do about a run of which too little is known to call it well."""
    if history.not_read_yet is not None:
        return f"wait for the first look: {history.not_read_yet}"
    behind = None if _all_dark(history) else present.log_behind(run, history)
    if behind is not None:
        log = history.facets.log
        why = "" if log.error is None else f" ({log.error.message})"
        age = wording.age(behind)
        lag = f"not read for {age}" if log.value is None else f"{age} behind"
        return f"log {lag}: find out why it cannot be read in time{why}"
    if not _all_dark(history):
        return f"look whether {run.name} still trains: {doubt(run, history)}"
    if _never_seen(history):
        return f"start {run.name}, or correct where the run file looks for it: {_why(history)}"
    saves = history.facets.checkpoints
    listed = saves.known and saves.value is not None and saves.value.items
    what = "only the checkpoints" if listed else "nothing"
    return f"find out why {what} of {run.name} can be seen: {_why(history)}"


def _as_far_as_read(action: str, history: History) -> str:
    """Return ``action`` and the remark that earlier rows may hold what no rule has seen yet."""
    return "; ".join((action, *(evidence.text for evidence in present.gap(history))))


def _never_seen(history: History) -> bool:
    """Tell whether all that the run file names of a run is simply not there."""
    facets = history.facets
    named = (facets.job, facets.log, facets.tracker, facets.checkpoints)
    asked = [facet for facet in named if facet.configured]
    missing = [each.error is not None and each.error.kind is ErrorKind.NOT_FOUND for each in asked]
    return facets.job.configured and len(asked) > 1 and all(missing)


def _why(history: History) -> str:
    facets = history.facets
    for facet in (facets.job, facets.log, facets.tracker):
        if facet.configured and facet.error is not None:
            said = facet.error.message
            return said if facet.source in said else f"{facet.source}: {said}"
    if facets.tracker.configured:
        return f"{facets.tracker.source}: nothing was logged, and nothing is being written"
    return "the run file names no job, log or tracker"
