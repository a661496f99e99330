"""What ``cockpit init`` can begin from on an Iris controller: the jobs of one user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.iris.access import AccessError, endpoint_of
from cockpit.platforms.iris.answers import Job
from cockpit.platforms.iris.jobs import PATIENT, IrisJobs
from cockpit.platforms.iris.rpc import ANYBODY, Controller
from cockpit.platforms.iris.trees import is_job_id, user_of
from cockpit.platforms.iris.words import phase_of
from cockpit.runtime.account import login_name
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PAGES: Final = 1
"""A person chooses among the newest few hundred."""


async def own_jobs(asked: IrisJobs, job: JobSpec) -> Sequence[OwnJob]:
    """Return a user's jobs, living ones first: of whom ``job.id`` names, else of our token, or us.

    Raises ``CannotError``.
    """
    try:
        async with asyncio.timeout(PATIENT):
            place = await asked.place([RunSpec(name="init", job=job)])
            prefix = f"/{await _user(place.controller, job)}/"
            jobs = await place.controller.jobs(prefix, pages=PAGES)
    except (HttpError, AccessError) as error:
        raise CannotError(str(error)) from None
    except TimeoutError:
        text = f"{endpoint_of(job)} did not answer within {PATIENT:g} s: is its tunnel up?"
        raise CannotError(text) from None
    return _shown(each for each in jobs if each.id.startswith(prefix) and each.id.count("/") == 2)


async def _user(controller: Controller, job: JobSpec) -> str:
    if job.id and is_job_id(job.id):
        return user_of(job.id)
    name, _ = await controller.user()
    return login_name() if name == ANYBODY else name


def _shown(jobs: Iterable[Job]) -> list[OwnJob]:
    ordered = sorted(jobs, key=lambda job: (not phase_of(job).lives, -(job.submitted_at or 0.0)))
    return [
        OwnJob(
            id=clean(job.id, 200),
            name=clean(scrub(job.id.rpartition("/")[2]), 200),
            text=clean(job.state.removeprefix("JOB_STATE_"), 80),
        )
        for job in ordered
    ]
