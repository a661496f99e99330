"""The end of jobs: told by their exact ids, and waited for by their tasks (SPEC A).

A job is KILLED the moment it is told to end; its processes go on until their worker says that
they have ended. Only then may anything else write to the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.iris.access import AccessError
from cockpit.platforms.iris.answers import Job, Task, job_of
from cockpit.platforms.iris.beside import SUBMITTED, submitted
from cockpit.platforms.iris.jobs import IrisJobs
from cockpit.platforms.iris.rpc import Controller
from cockpit.platforms.iris.trees import belongs_to, is_job_id
from cockpit.platforms.iris.words import phase_of
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.moment import Awake
from cockpit.text.scrub import shown

ASK: Final = 20.0
"""Seconds that telling one job to end may take."""
SLACK: Final = 60.0
"""Seconds beyond the job's grace within which its workers must have said that it ended."""
AGAIN: Final = 1.0
PAGES: Final = 3


class Stopper:
    """Ends jobs, and waits for their real end."""

    def __init__(self, clock: Clock, jobs: IrisJobs) -> None:
        self._clock = clock
        self._jobs = jobs

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and what is below them; raises as ``Platform.stop`` does."""
        for job in jobs:
            if not is_job_id(job.id):
                raise CannotError(f"{shown(job.id, 80)} is not an Iris job")
        try:
            controller = await self._jobs.acting(run)
        except (AccessError, TimeoutError) as error:
            raise CannotError(f"nothing was told to stop: {shown(error)}") from None
        told: list[str] = []
        for job in jobs:
            await self._tell(controller, job, told)
        grace = 60.0 if run.job is None else run.job.grace
        await self._ended(controller, told, grace + SLACK)

    async def _tell(self, controller: Controller, job: LiveJob, told: list[str]) -> None:
        """Tell one job to end, if it is still the one that was meant."""
        try:
            async with asyncio.timeout(ASK):
                now = job_of((await controller.status(job.id)).get("job"))
        except (HttpError, TimeoutError) as error:
            raise _not_told(job, error, told) from None
        if not _same(job, now):
            return
        if phase_of(now).lives or phase_of(now) is Phase.UNKNOWN:
            try:
                await controller.terminate(job.id)
            except LostAnswerError as error:
                text = f"cannot tell whether {job.id} was told to stop: {error}"
                raise LostError(text) from None
            except HttpError as error:
                raise _not_told(job, error, told) from None
        told.append(job.id)  # told by someone else perhaps: its tasks may go on all the same

    async def _ended(self, controller: Controller, ids: Sequence[str], within: float) -> None:
        """Wait until all tasks of these jobs have ended; raises ``LostError`` if they do not."""
        until, left = Awake(within, ASK, self._clock.monotonic), list(ids)
        why = ""
        while left:
            try:
                async with asyncio.timeout(ASK):
                    why = await _living(controller, left[0])
            except (HttpError, TimeoutError) as error:
                why = shown(error) or "the controller does not answer"
            if not why:
                left.pop(0)
            elif until.left() <= 0:
                raise LostError(f"told to stop, and not ended after {within:g} s: {why}")
            else:
                await self._clock.sleep(AGAIN)


def _not_told(job: LiveJob, error: Exception, told: Sequence[str]) -> CannotError | LostError:
    """Return the error of a job that surely was not told to stop; others were perhaps."""
    why = shown(error) or "the controller did not answer in time"
    if told:
        return LostError(f"{', '.join(told)} told to stop, and {job.id} was not: {why}")
    return CannotError(f"{job.id} was not told to stop: {why}")


def _same(job: LiveJob, now: Job) -> bool:
    """Tell whether the job of that name is still the same execution: names are used again."""
    told = job.handle.get(SUBMITTED)
    return not told or now.submitted_at is None or told == submitted(now)


async def _living(controller: Controller, job_id: str) -> str:
    """Return what of a job and all below it has not ended, empty if nothing; raises."""
    first = job_of((await controller.status(job_id)).get("job"))
    listed = await controller.jobs(f"{job_id}/", pages=PAGES)
    own = [first, *(job for job in listed if belongs_to(job.id, job_id))]
    lives = next((job for job in own if not phase_of(job).terminal), None)
    if lives is not None:
        return f"{lives.id} is {lives.state.removeprefix('JOB_STATE_')}"
    for job in own:
        going = [task for task in await controller.tasks(job.id) if _goes_on(task)]
        if going:
            return f"the worker of {going[0].id} has not said that it ended"
    return ""


def _goes_on(task: Task) -> bool:
    return task.placed and task.finished_at is None
