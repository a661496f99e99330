"""What ``cockpit init`` can begin from on a Ray head: all its jobs, for Ray knows no users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.jobs import OwnJob
from cockpit.platforms.base import CannotError
from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.states import phase_of
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_LAUNCH: Final = re.compile(r"(.+)-i\d{3,6}")


async def own_jobs(head: Head) -> Sequence[OwnJob]:
    """Return the jobs of a head, living ones and then the newest first; raises ``CannotError``."""
    try:
        jobs = await head.jobs()
    except HttpError as error:
        raise CannotError(clean(str(error), 400)) from None
    ordered = sorted(jobs, key=lambda job: (not phase_of(job).lives, -(job.submitted_at or 0.0)))
    return [_own(job) for job in ordered]


def _own(job: RayJob) -> OwnJob:
    launch = _LAUNCH.fullmatch(job.id)
    name = launch[1] if launch is not None else job.metadata.get("job_name", job.id)
    command = clean(scrub(job.entrypoint), 120)
    return OwnJob(
        id=clean(job.id, 200),
        name=clean(scrub(name), 200),
        text=clean(job.status, 80) + (f", {command}" if command else ""),
    )
