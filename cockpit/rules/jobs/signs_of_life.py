"""A process that works while its log is silent: other sources show it (SPEC J, C-23).

An empty log is one source. A program that holds its output back (``conda run``, ``python`` without
``-u``) saves and reports to its tracker without a line: it has started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cockpit.model import wording
from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import Facet
from cockpit.model.lineage import named
from cockpit.model.observed import STARTING, JobValue, Phase
from cockpit.model.report import Facets


def and_the_job(facets: Facets, changes: Mapping[str, Facet[Any]]) -> Facets:
    """Return facets with such changes, and with the job as these show it."""
    changed = facets.model_copy(update=changes)
    job = with_signs_of_life(changed.job, changed)
    return changed if job is changed.job else changed.model_copy(update={"job": job})


def with_signs_of_life(job: Facet[JobValue], facets: Facets) -> Facet[JobValue]:
    """Return a job that seems to be starting as running, where another source shows its work."""
    value = job.value
    if value is None or value.state != STARTING or value.started_at is None:
        return job
    sign = sign_of_life(facets, value.started_at)
    if sign is None:
        return job
    running = {
        "state": "running",
        "phase": Phase.RUNNING,
        "reason": f"its log shows nothing of this start, but {sign}",
        "pending_since": None,
    }
    return job.model_copy(update={"value": value.model_copy(update=running)})


def sign_of_life(facets: Facets, started: float) -> str | None:
    """Return what was done since a start, as far as any source but the log shows it."""
    since = started + FILE_SKEW
    listing, tracker = facets.checkpoints.value, facets.tracker.value
    saves = [each for each in (listing.items if listing is not None else ()) if each.saved_at]
    newest = max(saves, key=lambda each: each.saved_at or 0.0, default=None)
    if newest is not None and newest.saved_at is not None and newest.saved_at > since:
        return f"{named(newest)} was saved at {wording.moment(newest.saved_at)}"
    if tracker is not None and tracker.last_step_at is not None and tracker.last_step_at > since:
        return f"the tracker has a step of {wording.moment(tracker.last_step_at)}"
    return None
