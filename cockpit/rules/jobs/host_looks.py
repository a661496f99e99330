"""The fold of looks at a job's host: what one look alone cannot tell (C-22). Bounded, O(1) a look.

A counter of the kernel says nothing by its height, only by rising; a list of accelerators only by
becoming shorter; and one look at 0 % is a pause between two steps.
"""

from __future__ import annotations

from typing import Any

from cockpit.model.facet import Facet
from cockpit.model.history import HostMark
from cockpit.model.observed import HostValue, JobValue


def looked_at(mark: HostMark, former: HostValue | None, seen: Facet[HostValue],
              job: JobValue | None) -> HostMark:  # fmt: skip
    """Return the mark after one more look; ``former`` is what the look before it told.

    Another job begins anew: what the one before it did to the host is no sign of this one. What
    a look does not tell is as it was.
    """
    value, at = seen.value, seen.observed_at
    if value is None or at is None:
        return mark
    whose = None if job is None else f"{job.id}@{job.started_at or 0:.0f}"
    if mark == HostMark() and former is not None:
        mark = HostMark(job=whose, oom_kills=former.oom_kills, gpus=len(former.gpus))
    elif mark.job != whose:
        mark = HostMark(job=whose)
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
    if not value.gpus:
        return {}  # no list is no answer: whoever lists them may be what fails
    used = [gpu.util_frac for gpu in value.gpus]
    idle = all(share == 0.0 for share in used)
    fewer = len(value.gpus) < mark.gpus
    return {
        "gpus": max(mark.gpus, len(value.gpus)),
        "fewer_since": (mark.fewer_since or at) if fewer else None,
        "idle_since": (mark.idle_since or at) if idle else None,
    }
