"""The one word for a run's health, why it is that one, and what to do next (SPEC C).

All facets are held together in one decision table. Exactly one row holds of any run at any time
(``ROWS``; ``tests/rules/test_judge.py`` goes through every combination of facet states):

=========  =========  =====================================================================
row        verdict    when (and no row above it)
=========  =========  =====================================================================
critical   critical   a critical is open, acknowledged or not
open       attention  a warning or alert is open; C-03 apart, which is the monitor's own mark
dark       unknown    job, log and tracker are all unknown: a tracker that is an empty file
                      nobody writes tells nothing
behind     unknown    the job lives, and what is read of its log lags more than a cadence
trains on  unknown    the job is over, and steps were logged well after its end
sealed     sealed     the job succeeded, and its seal is there
finished   finished   the job is over otherwise: what was wrong with its end is an open alert
doubt      unknown    it may live, and its job was not asked lately, or is unclear while
                      nothing of it moves (``cockpit.rules.verdict``)
healthy    healthy    it lives by its job's fresh word, or moves by itself
=========  =========  =====================================================================

Facets check one another before this table is read: rules that compare them open the alerts (C-06 a
running job without steps, C-12 a restart beside its checkpoints, C-13 a tracker that stands still
beside a log that moves, C-19 a success without its artifacts, C-23, C-25).

Why a run with which no rule finds anything wrong cannot be called healthy all the same. Pure.

Healthy is a claim: its job was asked, and lately; or, where the job cannot tell, something of
the run moves. What nobody has looked at, and what only looked well once, is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import ErrorKind
from cockpit.model.history import History
from cockpit.model.observed import CheckpointState, Phase
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec
from cockpit.model.wording import ago
from cockpit.rules import present
from cockpit.rules.present import CADENCES, StepClock, phase_of, seal_of, steps_now

OLD_AT_LEAST = 180.0
"""Seconds: an answer that came since then is none of the past, however short the cadence."""


def doubt(run: RunSpec, history: History) -> str | None:
    """Return why the run is not healthy, ``None`` where its job, or what moves, says that it is."""
    if history.not_read_yet is not None:
        return history.not_read_yet
    job = history.facets.job
    if not history.job_named:
        return None if _starting(history) or steps_now(run, history) else _stopped_text(history)
    if job.known and phase_of(history) is not Phase.UNKNOWN:
        age = job.age(history.now)
        old = age is not None and age > max(OLD_AT_LEAST, CADENCES * run.cadence)
        return f"the job was last queried {ago(age)}" if old else None
    return None if _moves(run, history) else f"{_unclear(history)}, and nothing shows it moving"


def _starting(history: History) -> bool:
    """Tell whether a tracker without any step is being written: the first step has its own rule."""
    return phase_of(history) is Phase.RUNNING and StepClock(history).last is None


def _stopped_text(history: History) -> str:
    last = StepClock(history).last
    since = "no step seen" if last is None else f"steps stopped {ago(history.now - last)}"
    return f"{since}; no job is configured"


def _moves(run: RunSpec, history: History) -> bool:
    """Tell whether training, the log or the checkpoints have moved within two cadences."""
    facets = history.facets
    log, saves = facets.log.value, facets.checkpoints.value
    moments = [StepClock(history).last, None if log is None else log.mtime]
    moments += [
        item.saved_at
        for item in (() if saves is None else saves.items)
        if item.state is CheckpointState.COMPLETE
    ]
    newest = max((at for at in moments if at is not None), default=None)
    return newest is not None and history.now - newest <= CADENCES * run.cadence


def _unclear(history: History) -> str:
    job = history.facets.job
    if job.known and job.value is not None:
        return f'the job\'s state is "{job.value.state}"'
    return "the job is unknown" if job.error is None else f"{job.source}: {job.error.message}"


_ATTENTION = (Severity.WARNING, Severity.ALERT)
WELL_AFTER: Final = 60.0
"""Seconds, at least, after a job's end in which steps may still come of it: clocks, late rows."""


class Situation(NamedTuple):
    """All that the table asks of a run. ``None`` and ``False``: that is not so."""

    worst: Verdict | None
    worst_title: str
    dark: str | None
    behind: float | None
    trains_on: float | None
    over: Phase | None
    seal: str | None
    doubt: str | None


class TableRow(NamedTuple):
    """One row: its name, its verdict, when it holds where none above it does, and why."""

    name: str
    verdict: Verdict
    holds: Callable[[Situation], bool]
    why: Callable[[Situation], str]


ROWS: Final = (
    TableRow("critical", Verdict.CRITICAL, lambda s: s.worst is Verdict.CRITICAL,
             lambda s: s.worst_title),
    TableRow("open", Verdict.ATTENTION, lambda s: s.worst is Verdict.ATTENTION,
             lambda s: s.worst_title),
    TableRow("dark", Verdict.UNKNOWN, lambda s: s.dark is not None,
             lambda s: f"job, log and W&B are unknown: {s.dark}"),
    TableRow("behind", Verdict.UNKNOWN, lambda s: s.behind is not None,
             lambda s: f"its log is not read in time: {_lag(s.behind or 0.0)} behind"),
    TableRow("trains on", Verdict.UNKNOWN, lambda s: s.trains_on is not None,
             lambda s: "its job is over, but steps were logged until"
             f" {wording.moment(s.trains_on or 0.0)}"),
    TableRow("sealed", Verdict.SEALED, lambda s: s.seal is not None,
             lambda s: f"sealed ({s.seal})"),
    TableRow("finished", Verdict.FINISHED, lambda s: s.over is not None,
             lambda s: f"its job is over: {'' if s.over is None else s.over.value}"),
    TableRow("doubt", Verdict.UNKNOWN, lambda s: s.doubt is not None,
             lambda s: s.doubt or ""),
    TableRow("healthy", Verdict.HEALTHY, lambda _: True,
             lambda _: "running, no open alerts"),
)  # fmt: skip
"""The decision table, in order: the first row that holds decides."""


def situation(run: RunSpec, history: History, alerts: Sequence[Alert]) -> Situation:
    """Return what the table asks of a run."""
    phase = phase_of(history)
    worst = of_alerts(alerts)
    own = [each for each in alerts if each.id != "C-03" and each.severity is not Severity.INFO]
    first = max(own, key=lambda each: each.severity.rank, default=None)
    return Situation(
        worst=worst,
        worst_title="" if first is None else f"{first.id} {first.title}",
        dark=_why(history) if _all_dark(history) else None,
        behind=present.log_behind(run, history),
        trains_on=_trains_on(run, history),
        over=phase if phase.terminal else None,
        seal=seal_of(history),
        doubt=None if phase.terminal else doubt(run, history),
    )


def row_of(found: Situation) -> TableRow:
    """Return the row of the table that holds."""
    return next(row for row in ROWS if row.holds(found))


def verdict(run: RunSpec, history: History, alerts: Sequence[Alert]) -> Verdict:
    """Return SPEC C's verdict, by the table; an acknowledged alert is still open."""
    return row_of(situation(run, history, alerts)).verdict


def reason(run: RunSpec, history: History, alerts: Sequence[Alert]) -> str:
    """Return in one line why the verdict is the one it is."""
    found = situation(run, history, alerts)
    return row_of(found).why(found)


def _trains_on(run: RunSpec, history: History) -> float | None:
    """Return when training last stepped if that was well after the job's end."""
    last, job = present.trained_after_end(history), present.job_of(history)
    ended = None if job is None else job.ended_at
    slack = max(WELL_AFTER, run.cadence)
    return last if last is not None and ended is not None and last > ended + slack else None


def of_alerts(alerts: Sequence[Alert]) -> Verdict | None:
    """Return what the open alerts alone say, ``None`` where they leave it to the facets."""
    own = [alert.severity for alert in alerts if alert.id != "C-03"]
    if Severity.CRITICAL in own:
        return Verdict.CRITICAL
    return Verdict.ATTENTION if any(severity in _ATTENTION for severity in own) else None


def _all_dark(history: History) -> bool:
    facets = history.facets
    return not (facets.job.known or facets.log.known or _tracker_tells(history))


def _tracker_tells(history: History) -> bool:
    """Tell whether the tracker says anything of how the run is: a silent empty file does not."""
    tracker = history.facets.tracker
    value = tracker.value
    empty = value is not None and value.state == "silent" and value.last_step_at is None
    return tracker.known and not empty


def next_action(
    run: RunSpec, history: History, alerts: Sequence[Alert], word: Verdict | None = None
) -> str:
    """Return the next safe action: of the worst alert nobody has taken, else by the verdict.

    ``word`` is the verdict where that is known already.
    """
    taken = {alert.key for alert in alerts if alert.acknowledged is not None}
    for alert in alerts:
        own = alert.key not in taken and alert.caused_by not in taken
        if own and alert.severity is not Severity.INFO:
            return alert.next_action
    word = word or verdict(run, history, alerts)
    if word is Verdict.UNKNOWN or history.not_read_yet is not None:
        return _to_know_more(run, history)
    if word is Verdict.FINISHED:
        early = next((alert.next_action for alert in alerts if alert.no_success), None)
        other = early or (alerts[0].next_action if alerts else "nothing to do: the job is over")
        sealable = phase_of(history) is Phase.SUCCEEDED and early is None
        return _as_far_as_read(f"seal {run.name}" if sealable else other, history)
    if word is Verdict.SEALED:
        return _as_far_as_read(f"nothing to do: sealed ({seal_of(history)})", history)
    if word is Verdict.HEALTHY:
        return _as_far_as_read("nothing to do until the next check", history)
    return "nothing new; all open alerts are acknowledged"


def _to_know_more(run: RunSpec, history: History) -> str:
    """Return what to do about a run of which too little is known to call it well."""
    if history.not_read_yet is not None:
        return f"wait for the first look: {history.not_read_yet}"
    behind = None if _all_dark(history) else present.log_behind(run, history)
    if behind is not None:
        log = history.facets.log
        why = "" if log.error is None else f" ({log.error.message})"
        lag = _lag(behind)
        lag = f"not read for {lag}" if log.value is None else f"{lag} behind"
        return f"log {lag}: check why it cannot be read in time{why}"
    if not _all_dark(history):
        return f"check whether {run.name} is still training: {reason(run, history, ())}"
    if _never_seen(history):
        return f"start {run.name}, or fix where cockpit.toml looks for it: {_why(history)}"
    saves = history.facets.checkpoints
    listed = saves.known and saves.value is not None and saves.value.items
    what = "no source but the checkpoints" if listed else "no source"
    return f"check why {what} of {run.name} can be read: {_why(history)}"


def _lag(seconds: float) -> str:
    return "a few seconds" if wording.age(seconds) == "now" else wording.age(seconds)


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
        return f"{facets.tracker.source}: nothing was logged, nothing is being written"
    return "no job in cockpit.toml, log or tracker"
