"""The fold of looks at a job's host: what one look alone cannot tell (C-22). Bounded, O(1) a look.

A counter of the kernel says nothing by its height, only by rising; a list of accelerators only by
becoming shorter; and one look at 0 % is a pause between two steps.
"""

from __future__ import annotations

from typing import Any

from cockpit.model.facet import Facet
from cockpit.model.history import HostMark
from cockpit.model.observed import HostValue, JobValue


def of_job(mark: HostMark, job: JobValue | None) -> HostMark:
    """Return the mark of a job: what the one before it did to its host is no sign of this one."""
    whose = None if job is None else f"{job.id}@{job.started_at or 0:.0f}"
    return mark if mark.job == whose else HostMark(job=whose)


def recalled(job: JobValue | None, value: HostValue | None) -> HostMark:
    """Return the mark from what a cockpit before this one saw last: a job, and its host."""
    mark = of_job(HostMark(), job)
    seen = {} if value is None else {"oom_kills": value.oom_kills, "gpus": listed(value)}
    return mark.model_copy(update=seen)


def looked_at(mark: HostMark, seen: Facet[HostValue]) -> HostMark:
    """Return the mark after one more look; what it does not tell is as it was."""
    value, at = seen.value, seen.observed_at
    if value is None or at is None:
        return mark
    return mark.model_copy(update={**_killed(mark, value, at), **_accelerators(mark, value, at)})


def _killed(mark: HostMark, value: HostValue, at: float) -> dict[str, Any]:
    if value.oom_kills is None:
        return {}
    known = mark.oom_kills
    rose = known is not None and value.oom_kills > known
    return {
        "oom_kills": value.oom_kills,
        **({"oom_from": known, "oom_at": at} if rose else {}),
    }


def _accelerators(mark: HostMark, value: HostValue, at: float) -> dict[str, Any]:
    if not answered(value):
        return {}
    used = [gpu.util_frac for gpu in value.gpus]
    idle = bool(used) and all(share == 0.0 for share in used)
    fewer = len(value.gpus) < max(mark.gpus, listed(value))
    return {
        "gpus": max(mark.gpus, listed(value)),
        "fewer_since": (mark.fewer_since or at) if fewer else None,
        "idle_since": (mark.idle_since or at) if idle else None,
    }


def listed(value: HostValue) -> int:
    """Return how many accelerators a look has found, with those that do not answer."""
    return len(value.gpus) + (value.gpus_lost or 0)


def answered(value: HostValue) -> bool:
    """Tell whether a look has counted the accelerators: also where it found none.

    One that took too long, or a machine without a program that lists them, has counted nothing.
    """
    return bool(value.gpus) or value.gpus_lost is not None
