"""A checkpoint on request: the training control that a trainer offers on October's controllers."""

from __future__ import annotations

from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.iris.access import AccessError
from cockpit.platforms.iris.details import OFFERS
from cockpit.platforms.iris.jobs import CONTROL, IrisJobs
from cockpit.runtime.http import Answer, HttpError, LostAnswerError, told

HEADER: Final = "X-Levanter-Training-Control"
REQUEST: Final = "request-checkpoint"
NONE: Final = "the trainer offers no training control: it cannot be asked for a checkpoint"


def can_save(job: LiveJob) -> str | None:
    """Return why a living job cannot be asked, ``None`` if it offers its training control."""
    return None if job.handle.get(CONTROL) else NONE


async def save(jobs: IrisJobs, run: RunSpec, job: LiveJob) -> None:
    """Ask a trainer to save after its current step; raises as ``Platform.save`` does."""
    offering = job.handle.get(CONTROL)
    if not offering:
        raise CannotError(NONE)
    path = f"proxy/{page_of(offering)}/checkpoint"
    try:
        controller = await jobs.acting(run)
        answer = await controller.post(path, {HEADER: REQUEST})
    except LostAnswerError as error:
        raise LostError(f"cannot tell whether {offering} was asked to save: {error}") from None
    except (HttpError, AccessError, TimeoutError) as error:
        raise CannotError(f"{offering} was not asked to save: {error}") from None
    _expect(offering, answer)


def page_of(job_id: str) -> str:
    """Return the name of a job's training control behind the controller's proxy."""
    return job_id.strip("/").replace("/", ".") + OFFERS.replace("/", ".")


def _expect(offering: str, answer: Answer) -> None:
    """Raise for anything but *requested*: what the trainer did not take in it will not do."""
    if answer.status in (200, 202):
        return
    text = f"{offering} was not asked to save: {answer.host} answered {answer.status}"
    raise CannotError(f"{text}{told(answer.body)}")
