"""C-26, walltime clock: the job's time limit ends it before its next checkpoint is due."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.lineage import newest_of
from cockpit.model.observed import Checkpoint, JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.metrics.progress import progress
from cockpit.rules.present import job_of, job_source, seen_at


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
    last = _last(saved, job)
    seen = seen_at(history.facets.job, history.now)
    if last is None or last + every <= job.ends_by or _done_before(run, history, job.ends_by, seen):
        return
    if last + 2 * every <= seen:
        return  # saves are late or fewer than told: C-07 says so, and when the next comes is open
    yield _alert(run, history, job, last + every)


def _last(saved: Checkpoint | None, job: JobValue) -> float | None:
    """Return when the present job last saved, else when it began."""
    times = (job.started_at, saved.saved_at if saved is not None else None)
    return max((at for at in times if at is not None), default=None)


def _done_before(run: RunSpec, history: History, ends_by: float, seen: float) -> bool:
    eta = progress(run, history).eta_s
    return eta is not None and seen + eta <= ends_by


def _alert(run: RunSpec, history: History, job: JobValue, due: float) -> Alert:
    assert job.ends_by is not None and run.checkpoints is not None and run.checkpoints.save_every
    ends = f"{job.id} reaches its time limit at {wording.moment(job.ends_by)}"
    text = f"the next checkpoint is due at {wording.moment(due)}"
    after = f"; {job.queued[0].id} continues after it" if job.queued else ""
    return Alert(
        id="C-26",
        key=f"C-26:{run.name}:{job.id}",
        severity=Severity.ALERT,
        title="Time limit before the next checkpoint",
        since=due - run.checkpoints.save_every,
        evidence=present.evidence(job_source(history), ends, text),
        confidence="likely",
        next_action="ask the trainer to save before then, or the steps since its last save are"
        f" lost{after}",
    )
