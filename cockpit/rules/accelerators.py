"""How many accelerators a run's job holds, by whose word, and whether as many all the time."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Final

from cockpit.model import wording
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules.present import job_of

BETWEEN_TASKS: Final = 60.0
"""Seconds within which one task of an array follows another."""
TASKS_CHANGED: Final = "its tasks came and went beside one another"


def tasks_changed(history: History) -> bool:
    """Tell whether an array held now more, now fewer accelerators than it does at present.

    So do tasks that begin and end beside one another, not those that follow one another.
    """
    job = job_of(history)
    if job is None or not job.members:
        return False
    known = {mark.accelerators for mark in history.phases
             if (mark.job_id, mark.phase) == (job.id, Phase.RUNNING)}  # fmt: skip
    begun = [(each.started_at, 1) for each in job.members if each.started_at is not None]
    ended = [(each.ended_at, -1) for each in job.members if each.ended_at is not None]
    events = [*sorted((*begun, *ended)), (history.now, 0)]
    widths = accumulate(change for _, change in events)
    lasted = {wide for wide, (one, next_one) in zip(widths, pairwise(events), strict=False)
              if next_one[0] - one[0] >= BETWEEN_TASKS}  # fmt: skip
    return len(lasted - {0}) > 1 or len({*known, job.accelerators} - {None}) > 1


def accelerators_of(run: RunSpec, history: History) -> tuple[int | None, str]:
    """Return how many accelerators the present job holds and by whose word; else why not.

    A process on a machine of one's own holds all that are listed there, but where its
    environment names some of them.
    """
    job, host = job_of(history), history.facets.host
    if job is not None and (job.accelerators is not None or job.accelerators_by is not None):
        return job.accelerators, job.accelerators_by or f"by {history.facets.job.source}"
    if run.job is None:
        return None, "no job in cockpit.toml"
    before = [m for m in history.phases if job and m.job_id == job.id and m.accelerators]
    if before:
        return before[-1].accelerators, f"as its system said {wording.moment(before[-1].at)}"
    if run.job.kind not in ("box", "local"):
        none = f"{history.facets.job.source or run.job.kind} names none for this job"
        return None, history.facets.job.why_unknown(
            "the job was not asked yet"
        ) if job is None else none
    value = host.value
    if value is None:
        return None, host.why_unknown("the machine was not asked yet")
    count = len(value.gpus) + (value.gpus_lost or 0)
    if value.gpus_lost is None and not value.gpus:
        why = value.gpus_error
        return None, f"no nvidia-smi on {host.source}" if why is None else why.message
    return count or None, f"by nvidia-smi on {host.source}" if count else f"none on {host.source}"
