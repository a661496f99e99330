"""Why a run with which no rule finds anything wrong cannot be called healthy all the same. Pure.

Healthy is a claim: its job was asked, and lately; or, where the job cannot tell, something of
the run moves. What nobody has looked at, and what only looked well once, is unknown.
"""

from __future__ import annotations

from cockpit.model.history import History
from cockpit.model.observed import CheckpointState, Phase
from cockpit.model.run import RunSpec
from cockpit.model.wording import ago
from cockpit.rules.patience import CADENCES, steps_now
from cockpit.rules.present import StepClock, phase_of

OLD_AT_LEAST = 180.0
"""Seconds: an answer that came since then is none of the past, however short the cadence."""


def doubt(run: RunSpec, history: History) -> str | None:
    """Return why the run is not healthy, ``None`` where its job, or what moves, says that it is."""
    if history.not_read_yet is not None:
        return history.not_read_yet
    job = history.facets.job
    if not history.job_named:
        return None if _starting(history) or steps_now(run, history) else _still(history)
    if job.known and phase_of(history) is not Phase.UNKNOWN:
        age = job.age(history.now)
        old = age is not None and age > max(OLD_AT_LEAST, CADENCES * run.cadence)
        return f"the job was last queried {ago(age)}" if old else None
    return None if _moves(run, history) else f"{_unclear(history)}, and nothing shows it moving"


def _starting(history: History) -> bool:
    """Tell whether a tracker without any step is being written: the first step has its own rule."""
    return phase_of(history) is Phase.RUNNING and StepClock(history).last is None


def _still(history: History) -> str:
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
