"""C-02, C-03, C-04 and C-26: the job's state, its monitor, its wait for capacity, its near end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.history import History, Outage
from cockpit.model.lineage import named, newest_good, newest_of
from cockpit.model.observed import STARTING, UNCLEAR, JobValue, MonitorValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.restarts import identity
from cockpit.rules.metrics.progress import progress
from cockpit.rules.present import (
    StepClock,
    job_of,
    job_source,
    of_present,
    phase_of,
    phase_since,
    seen_at,
    still_open,
)

CADENCES = 2
"""Cadences without an answer after which the job's state counts as unknown."""
NAMED = 12
"""Runs that the evidence names; the alert has them all."""


def state_unknown(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-02: the job's state has not been known for more than two cadences.

    Where it was looked at and what was seen does not decide, it is said at once. Where the
    place does not answer for several runs it is that place's alert (``place_unknown``).
    """
    facet = history.facets.job
    if not facet.configured or any("job" in outage.facets for outage in history.outages):
        return
    if not facet.known:
        why = facet.error.message if facet.error is not None else "never answered"
        since = present.first(facet.since, facet.observed_at, history.now)
    elif facet.value is not None and phase_of(history) is Phase.UNKNOWN:
        why = f'state "{facet.value.state}"'
        why += f": {facet.value.reason}" if facet.value.reason else ""
        since = phase_since(history)
    else:
        return
    doubt = facet.value is not None and facet.value.state == UNCLEAR
    if history.now - since <= CADENCES * run.cadence and not doubt:
        return
    advice = "do not assume it failed: check the other sources, then fix the job query"
    if doubt:
        advice = "check whether that process is the job, then fix or remove the pid file"
    yield Alert(
        key=f"C-02:{run.name}",
        title="Job state unknown",
        since=since,
        evidence=(Evidence(text=why, source=facet.source), *_side_by_side(run, history)),
        next_action=advice,
    )


def place_unknown(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-02 of a place: it has answered for none of its runs for more than two cadences.

    One run tells of it (``Outage.told_by``); the others show their facets as unknown.
    """
    for outage in history.outages:
        waited = history.now - outage.since
        if outage.told_by != run.name or waited <= CADENCES * run.cadence:
            continue
        what = ", ".join(outage.facets)
        yield Alert(
            key=Outage.key_of(outage.place),
            severity=Severity.WARNING,
            title=wording.sentence(
                f"{what} unknown{_several(outage.runs)}: {outage.place} {_does(outage.kind)}"
            ),
            since=outage.since,
            evidence=(
                Evidence(text=outage.why, source=outage.place),
                Evidence(text=f"{what} of {_names(outage.runs)}", source="run file"),
            ),
            next_action=f"fix access to {outage.place}; do not assume that its runs failed",
            runs=outage.runs,
        )


def _several(runs: Sequence[str]) -> str:
    return f" for {len(runs)} runs" if len(runs) > 1 else ""


def _names(runs: Sequence[str]) -> str:
    rest = len(runs) - NAMED
    return ", ".join(runs[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _does(kind: ErrorKind) -> str:
    if kind in (ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN):
        return "denies access"
    if kind is ErrorKind.RATE_LIMITED:
        return "is rate limiting"
    return (
        "gives answers that cannot be read" if kind is ErrorKind.BAD_ANSWER else "does not answer"
    )


def _side_by_side(run: RunSpec, history: History) -> tuple[Evidence, ...]:
    """Return one line per other facet that tells whether the run lives."""
    facets = history.facets
    clock = StepClock(history)
    log = None if facets.log.value is None else facets.log.value.mtime
    listing = facets.checkpoints.value
    times = [item.saved_at for item in listing.items] if listing is not None else []
    saved = max((at for at in times if at is not None), default=None)
    lines = (
        ("log", facets.log, log),
        ("training steps", facets.tracker, clock.last),
        ("checkpoints", facets.checkpoints, saved),
    )
    return tuple(
        Evidence(
            text=f"{name}: {_moving(at, seen_at(facet, history.now), run.cadence)}",
            source=facet.source,
        )
        for name, facet, at in lines
    )


def _moving(at: float | None, seen: float, cadence: float) -> str:
    if at is None:
        return "unknown"
    if seen - at <= CADENCES * cadence:
        return "moving"
    return f"no change since {wording.moment(at)}"


def pending_too_long(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-04: pending for longer than ``pending_after``, at once if it can never start.

    If the scheduler announced a start time, the job is late once that has passed.
    A process that lives and is silent waits for no capacity: that is C-06's.
    """
    job = job_of(history)
    if job is not None and job.phase is Phase.RUNNING:
        yield from _partial(run, history, job)
    if job is None or job.phase is not Phase.WAITING or job.state == STARTING:
        return
    since = phase_since(history)
    seen = seen_at(history.facets.job, history.now)
    due = max(since + run.thresholds.pending_after, job.expected_start or 0.0)
    if not job.never and seen <= due:
        return
    tasks = f", {job.tasks.running} of {job.tasks.total} tasks running" if job.tasks else ""
    text = f"{job.state}{tasks}: {job.reason or 'no reason given'}"
    if job.expected_start is not None:
        text += f"; the scheduler planned to start it at {wording.moment(job.expected_start)}"
    advice = ": change the resource request;" if job.never else " and keep waiting;"
    title = "Job can never start" if job.never else "Job still waiting to start"
    act = f"tell {wording.person(run)}{advice} do not touch the cluster"
    if job.held_by_person:
        title = "Job is held in the queue"
        act = f"ask who holds it and why; cockpit release {run.name} lets it start"
    yield Alert(
        key=f"C-04:{run.name}",
        title=title,
        since=since,
        evidence=present.evidence(job_source(history), text),
        next_action=act,
    )


def partial_since(
    since: float | None, former: JobValue | None, job: Facet[JobValue]
) -> float | None:
    """Return since when some of a running job's tasks are yet to run, after one more look.

    ``since`` belongs to the job of the ``former`` answer; another job starts again.
    """
    value, at = job.value, job.observed_at
    if value is None or value.tasks is None or value.phase is not Phase.RUNNING:
        return None
    tasks = value.tasks
    some = 0 < tasks.running < tasks.total - tasks.over
    same = former is not None and identity(former) == identity(value)
    return (since if same and since is not None else at) if some else None


def _partial(run: RunSpec, history: History, job: JobValue) -> Iterator[Alert]:
    """Yield for a job of which only a part was given its place, look after look."""
    since, seen = history.partial_since, seen_at(history.facets.job, history.now)
    if since is None or job.tasks is None or seen - since <= run.thresholds.pending_after:
        return
    text = f"{job.tasks.running} of {job.tasks.total} tasks running, not all of them since"
    text = f"{text} {wording.moment(since)}"
    yield Alert(
        key=f"C-04:{run.name}",
        title="Job only partly running",
        since=since,
        evidence=present.evidence(job_source(history), text),
        next_action=f"tell {wording.person(run)} and keep waiting; do not touch the cluster",
    )


MONITOR_CADENCES = 2
"""The monitor's own cadences without a heartbeat after which it counts as silent (SPEC C-03)."""


def monitor_stale(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-03: no sign of the monitor for more than two of its cadences, or two monitors.

    A run that succeeded, or that was stopped by our order, needs no monitor any more; one
    that failed is watched until a person has acknowledged it (SPEC W). What its clock leaves
    open (``doubt``) neither opens nor closes anything in a watch, which sees the next write; a
    single look has the stamp alone to go by, and says what speaks against it.
    """
    phase, facet = phase_of(history), history.facets.monitor
    stopped = phase.terminal and history.stop_ordered_by is not None
    if run.monitor is None or phase is Phase.SUCCEEDED or stopped:
        return
    value = facet.value
    if value is None:
        yield from _never_written(run, history, facet)
        return
    last, doubted = value.last_update, value.doubt is not None and history.attended
    silent = (
        last is not None and seen_at(facet, history.now) - last > MONITOR_CADENCES * value.cadence_s
    )
    former = still_open(history, f"C-03:{run.name}") if doubted else None
    if former is not None:
        yield former
    elif not doubted and (silent or not value.fresh):
        yield _stale(run, facet, value, history)
    elif value.gone:
        yield _cut_off(run, facet, value, history)
    if value.fresh and any(other.fresh for other in value.others):
        yield _two(run, facet, value, history)


def _stale(
    run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History
) -> Alert:
    when = "never" if value.last_update is None else wording.moment(value.last_update)
    limit = f"{MONITOR_CADENCES} cadences of {wording.span(value.cadence_s)}"
    whose = f"{value.owner}'s" if value.owner else "the"
    return Alert(
        key=f"C-03:{run.name}",
        title="Monitor silent (the run is checked separately)",
        since=present.first(value.last_update, phase_since(history)),
        evidence=present.evidence(
            facet.source,
            f"last sign of {whose} monitor: {when}; limit {limit}",
            *([] if value.doubt is None else [value.doubt]),
            *value.gone,
        ),
        confidence="sure" if value.doubt is None else "likely",
        next_action="restart the monitor; leave the run alone"
        if value.doubt is None
        else "look again after its next write, then restart it; leave the run alone",
    )


def _cut_off(
    run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History
) -> Alert:
    return Alert(
        key=f"C-03:{run.name}:gone",
        title="Monitor session is gone (the run is checked separately)",
        since=history.now,
        evidence=present.evidence(facet.source, *value.gone),
        confidence="likely",
        next_action="restart the session, then the monitor; leave the run alone",
    )


def _two(run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History) -> Alert:
    fresh = [other for other in value.others if other.fresh]
    return Alert(
        key=f"C-03:{run.name}:two",
        title=f"{len(fresh) + 1} monitors watch one job",
        since=min(other.last_update or history.now for other in fresh),
        evidence=(
            Evidence(
                text=f"{value.owner or 'a monitor'}: {value.path or '?'}", source=facet.source
            ),
            *(
                Evidence(text=f"{each.owner or 'another monitor'}: {each.path}", source=each.path)
                for each in fresh
            ),
        ),
        next_action="keep one monitor of this job; stop the others",
    )


def _never_written(run: RunSpec, history: History, facet: Facet[MonitorValue]) -> Iterator[Alert]:
    """Yield the alert for a monitor that has left no file at all for two cadences."""
    if facet.error is None or facet.error.kind is not ErrorKind.NOT_FOUND or facet.since is None:
        return
    if history.now - facet.since <= MONITOR_CADENCES * run.monitor_cadence:
        return
    yield Alert(
        key=f"C-03:{run.name}",
        title="No monitor heartbeat found (the run is checked separately)",
        since=facet.since,
        evidence=present.evidence(facet.source, facet.error.message),
        confidence="likely",
        next_action="start the monitor, or fix [run.monitor]",
    )


def walltime_short(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-26: less walltime is left than until the next checkpoint; not if it is done before."""
    job = job_of(history)
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    if job is None or job.phase is not Phase.RUNNING or job.ends_by is None or not every:
        return
    listing = history.facets.checkpoints
    if listing.value is None or listing.value.unlisted:
        return
    saved = newest_of(item for item in listing.value.items if item.complete and item.own)
    # When the present job last saved, else when it began
    times = (job.started_at, saved.saved_at if saved is not None else None)
    last = max((at for at in times if at is not None), default=None)
    seen = seen_at(history.facets.job, history.now)
    if last is None or last + every <= job.ends_by or _done_before(run, history, job.ends_by, seen):
        return
    if last + 2 * every <= seen:
        return  # saves are late or fewer than told: C-07 says so, and when the next comes is open
    yield _alert(run, history, job, last + every)


def _done_before(run: RunSpec, history: History, ends_by: float, seen: float) -> bool:
    eta = progress(run, history).eta_s
    return eta is not None and seen + eta <= ends_by


def _alert(run: RunSpec, history: History, job: JobValue, due: float) -> Alert:
    assert job.ends_by is not None and run.checkpoints is not None and run.checkpoints.save_every
    ends = f"{job.id} reaches its time limit at {wording.moment(job.ends_by)}"
    text = f"the next checkpoint is due at {wording.moment(due)}"
    after = f"; {job.queued[0].id} continues after it" if job.queued else ""
    severity, lost = Severity.ALERT, "or the steps since its last save are lost"
    act = f"ask the trainer to save before then, {lost}{after}"
    if job.signal_before_end is not None:
        name, before = job.signal_before_end
        sent = job.ends_by - before
        comes = "comes" if sent > history.now else "came"
        severity = Severity.WARNING
        act = f"see that it saves at {name}, which {comes} at {wording.moment(sent)}, {lost}{after}"
    return Alert(
        key=f"C-26:{run.name}:{job.id}",
        severity=severity,
        title="Time limit before the next checkpoint",
        since=due - run.checkpoints.save_every,
        evidence=present.evidence(job_source(history), ends, text),
        confidence="likely",
        next_action=act,
    )


OVER: Final = 900.0
"""Seconds after a notice in which it comes true: who still trains then was not taken away."""
_TAKEN: Final = re.compile(
    r"\b(?:preempt(?:ed|ing|ion)|reclaim(?:ed|ing)|evict(?:ed|ing|ion))\b", re.I
)
"""The scheduler took the job away: ``slurmstepd: job 71 was preempted``."""
_COUNTED: Final = re.compile(r"\bpreempted \d+ times?\b|\b\d+ preempted\b", re.I)
"""How often it was taken before, and what is taken by now: no notice of what is to come."""


def preemption_noticed(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-26: while the job still runs, and until it has trained on for longer than a notice is."""
    job = job_of(history)
    if job is None or job.phase is not Phase.RUNNING:
        return
    told = [*_by_log(history), *_by_others(history, job)]
    if not told:
        return
    after = f"; {job.queued[0].id} continues after it" if job.queued else ""
    value = history.facets.checkpoints.value
    newest = None if value is None else newest_good(value.items)
    saved = "no complete checkpoint known" if newest is None else f"{named(newest)} is complete"
    yield Alert(
        key=f"C-26:{run.name}:notice:{job.id}",
        title="Preemption notice: the job is about to be stopped",
        since=min(at for at, _ in told),
        evidence=tuple(line for _, line in told),
        confidence="likely",
        next_action=f"ask the trainer to save at once ({saved}); relaunch {run.name} once it has"
        f" ended, unless it restarts by itself{after}",
    )


def _by_log(history: History) -> Iterator[tuple[float, Evidence]]:
    log = history.facets.log
    notice = None if log.value is None else log.value.announced.notice
    if notice is None or not of_present(notice.at, history):
        return
    last = StepClock(history).last
    if last is None or last <= notice.at + OVER:
        text = f"{notice.line} (at {wording.moment(notice.at)})"
        yield notice.at, Evidence(text=text, source=log.source)


def _by_others(history: History, job: JobValue) -> Iterator[tuple[float, Evidence]]:
    """Yield what its platform says of it, and that the client has marked its run."""
    tracker = history.facets.tracker
    if job.preempted_at is not None:
        text = f"{job.id} was told to make room at {wording.moment(job.preempted_at)}"
        yield job.preempted_at, Evidence(text=text, source=job_source(history))
    if job.reason is not None and _TAKEN.search(_COUNTED.sub("", job.reason)):
        yield (
            seen_at(history.facets.job, history.now),
            Evidence(text=wording.with_reason(job.state, job.reason), source=job_source(history)),
        )
    marked = tracker.value is not None and tracker.value.state == "preempting"
    if tracker.value is not None and marked and of_present(tracker.value.heartbeat_at, history):
        text = 'W&B says "preempting"'
        yield seen_at(tracker, history.now), Evidence(text=text, source=tracker.source)
