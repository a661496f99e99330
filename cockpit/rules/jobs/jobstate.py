"""C-02, the job's state is unknown; C-04, capacity wedge: it waits too long, or cannot start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.history import History, Outage
from cockpit.model.observed import STARTING, UNCLEAR, JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.repeated import identity
from cockpit.rules.present import StepClock, job_of, job_source, phase_of, phase_since, seen_at

CADENCES = 2
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
        id="C-02",
        key=f"C-02:{run.name}",
        severity=Severity.WARNING,
        title="Job state unknown",
        since=since,
        evidence=(Evidence(text=why, source=facet.source), *_side_by_side(run, history)),
        confidence="sure",
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
            id="C-02",
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
            confidence="sure",
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

    Where the scheduler has told when it means to start it, it is late once that has passed.
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
    yield Alert(
        id="C-04",
        key=f"C-04:{run.name}",
        severity=Severity.WARNING,
        title="Job can never start" if job.never else "Job still waiting to start",
        since=since,
        evidence=present.evidence(job_source(history), text),
        confidence="sure",
        next_action=f"tell {wording.person(run)}{advice} do not touch the cluster",
    )


def partial_since(
    since: float | None, former: JobValue | None, job: Facet[JobValue]
) -> float | None:
    """Return since when some of a running job's tasks are yet to run, after one more look.

    ``since`` was told of the ``former`` look's job; another one begins anew.
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
        id="C-04",
        key=f"C-04:{run.name}",
        severity=Severity.WARNING,
        title="Job only partly running",
        since=since,
        evidence=present.evidence(job_source(history), text),
        confidence="sure",
        next_action=f"tell {wording.person(run)} and keep waiting; do not touch the cluster",
    )
