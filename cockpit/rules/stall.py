"""C-06, step stalled, by the training step's own clock; and C-23, a log that is only buffered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.observed import Phase, TrackerValue
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.rules.present import StepClock, job_of, job_source, phase_of, phase_since, seen_at

CADENCES = 2

DEGRADED = re.compile(
    r"OwnerDied(Error)?\b|dead node|node (death|is dead|died)|unsatisfied resource"
    r"|autoscaler.*(unsatisf|insufficient|cannot)",
    re.I,
)
"""What a cluster prints when it has lost the nodes under a job that it still calls running."""

FLUSHING = (0, 31)
"""The first tracker client that writes its file at least every ``FLUSH`` seconds."""

FLUSH = 15.0

BLIND_ROWS = 64
"""Rows that older clients may hold back: a 32 KiB block is about half as many."""


def step_stalled(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-06: the job is said to run, and training does not step."""
    if phase_of(history) is not Phase.RUNNING:
        return
    started = _started(history)
    clock = StepClock(history)
    if clock.last is None or clock.last < started:
        yield from _no_first_step(run, history, clock, started)
    elif clock.until is not None and clock.until - clock.last > patience(run, history):
        yield _stalled(run, history, clock.last)


def _started(history: History) -> float:
    """Return when the present job began, ``-inf`` if only its first sighting is known."""
    job = job_of(history)
    return float("-inf") if job is None or job.started_at is None else job.started_at


def patience(run: RunSpec, history: History) -> float:
    """Return how long (s) a missing step is nothing unusual.

    A step that is not logged cannot be seen: the usual time is that between two logged steps.
    """
    tracker = history.facets.tracker.value
    pace = history.trend.pace
    told = tracker.usual_step_s if tracker is not None else None
    usual = max(pace.usual_gap_s or 0.0, pace.usual_step_s or told or 0.0)
    limit = max(run.thresholds.stall_factor * usual, CADENCES * run.cadence)
    return limit if StepClock(history).direct else limit + _held_back(tracker, usual)


def _held_back(tracker: TrackerValue | None, usual: float) -> float:
    """Return for how long (s) the tracker's client may keep steps to itself."""
    found = re.search(r"(\d+)\.(\d+)", (tracker.producer or "") if tracker is not None else "")
    if found is None:
        return 0.0
    return FLUSH if (int(found[1]), int(found[2])) >= FLUSHING else BLIND_ROWS * usual


def _stalled(run: RunSpec, history: History, last: float) -> Alert:
    step = history.trend.pace.step
    tracker = history.facets.tracker
    if tracker.value is not None and tracker.value.step is not None:
        step = tracker.value.step
    limit = say.span(patience(run, history))
    seen = Evidence(
        text=f"the last training step ({say.step(step)}) was at {say.moment(last)}; limit {limit}",
        source=tracker.source if tracker.value is not None else history.facets.log.source,
    )
    return _alert(run, history, last, "no training step any more", (seen,), "sure")


def _no_first_step(
    run: RunSpec, history: History, clock: StepClock, started: float
) -> Iterator[Alert]:
    since = max(started, phase_since(history)) if started > float("-inf") else phase_since(history)
    until, silent = _watched_until(run, history, clock)
    if until is None or until - since <= run.thresholds.first_step_within:
        return
    seen = Evidence(
        text=f"started at {say.moment(since)}, no step within "
        f"{say.span(run.thresholds.first_step_within)}",
        source=job_source(history),
    )
    title = "no first training step"
    yield _alert(run, history, since, title, (seen,), "guess" if silent else "sure")


def _watched_until(run: RunSpec, history: History, clock: StepClock) -> tuple[float | None, bool]:
    """Return until when a first step would have been seen, and whether that is only a guess.

    Where no source shows steps at all, a log that has gone silent is the only hint.
    """
    if clock.until is not None:
        return clock.until, False
    log = history.facets.log
    if log.value is None or history.facets.tracker.configured:
        return None, False
    seen = seen_at(log, history.now)
    return (seen, True) if seen - log.value.mtime > CADENCES * run.cadence else (None, False)


def _alert(
    run: RunSpec,
    history: History,
    since: float,
    title: str,
    seen: tuple[Evidence, ...],
    confidence: Literal["sure", "guess"],
) -> Alert:
    signs = _degraded(history)
    return Alert(
        id="C-06",
        key=f"C-06:{run.name}",
        severity=Severity.ALERT,
        title=f"degraded: {title}" if signs else title,
        since=since,
        evidence=(*seen, *_job(history), *signs),
        confidence=confidence,
        next_action=_next(run, bool(signs)),
    )


def _next(run: RunSpec, degraded: bool) -> str:
    if degraded:
        return f"escalate to {say.person(run)}: nodes are lost; never touch the cluster"
    return "look at the log and the host; stop and relaunch only once the cause is known"


def _job(history: History) -> tuple[Evidence, ...]:
    job = job_of(history)
    if job is None or not job.reason:
        return ()
    return (Evidence(text=f"job {job.state}: {job.reason}", source=job_source(history)),)


def _degraded(history: History) -> tuple[Evidence, ...]:
    log = history.facets.log
    lines = [line.plain for line in log.value.lines] if log.value is not None else []
    found = [line for line in lines if DEGRADED.search(line)]
    return tuple(Evidence(text=line, source=log.source) for line in found[-3:])


def log_frozen(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-23: no new bytes in the log while steps move; when nothing moves it is C-06."""
    log = history.facets.log
    last = StepClock(history).last
    if log.value is None or last is None or phase_of(history) is not Phase.RUNNING:
        return
    limit = CADENCES * run.cadence
    seen = seen_at(log, history.now)
    if seen - log.value.mtime <= limit or last - log.value.mtime <= limit or seen - last > limit:
        return
    yield Alert(
        id="C-23",
        key=f"C-23:{run.name}",
        severity=Severity.INFO,
        title="the log is frozen while training steps",
        since=log.value.mtime,
        evidence=(Evidence(text=f"last byte at {say.moment(log.value.mtime)}", source=log.source),),
        confidence="likely",
        next_action="nothing; its output is buffered (python -u would show it)",
    )
