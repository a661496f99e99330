"""Stops jobs on a Ray head by exact submission id, and asks trainers to save."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.hosts.here import HERE_LINK
from cockpit.model.clock import Clock
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import save_by_command
from cockpit.platforms.ray.answers import RayJob, phase_of
from cockpit.platforms.ray.head import Head
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.moment import Awake
from cockpit.text.safe import clean

SUBMISSION: Final = "submission_id"
STARTED: Final = "start_time"
OUTSIDE: Final = "it was attached from outside: only where it was started can it be ended"
GONE_WITHIN: Final = 30.0
"""Seconds beyond ``job.grace`` in which a job must have ended that was told to."""
WAITS_FOR: Final = 15.0
"""Seconds after which a job that waits, and was told to stop, is not going to heed it."""
POLL_EVERY: Final = 0.5
"""Seconds between two looks at whether a job has ended."""
MAX_POLL_GAP: Final = 16.0
"""Seconds between two looks beyond which this process was suspended; they do not count."""


class Target(NamedTuple):
    """One execution: what Ray calls it, and when it was submitted by the head's clock."""

    name: str
    submitted_at: str


def handle_of(job: RayJob) -> dict[str, str]:
    """Return what a job is stopped by; none for a driver from outside."""
    if job.submission_id is None:
        return {}
    return {SUBMISSION: job.submission_id, STARTED: _stamp(job)}


async def stop(head: Head, jobs: Sequence[LiveJob], grace: float, clock: Clock) -> None:
    """Stop exactly these jobs, and return once the head says that they are over.

    Raises ``CannotError`` where one lives on that was not asked to stop, or ignores it,
    ``LostError`` where this is not known.
    """
    targets = [_target(job) for job in jobs]
    try:
        living = [each for each in targets if await _lives(head, each)]
    except HttpError as error:
        raise CannotError(f"no job was told to stop: {clean(str(error), 400)}") from error
    await asyncio.gather(*(_end(head, each, grace, clock) for each in living))


def _target(job: LiveJob) -> Target:
    name = job.handle.get(SUBMISSION)
    if not name:
        raise CannotError(f"{job.id}: {OUTSIDE}")
    return Target(name, job.handle.get(STARTED, ""))


async def _lives(head: Head, target: Target) -> bool:
    """Tell whether it lives; raises ``CannotError`` when the id is another job's by now."""
    job = await head.find(target.name)
    if job is None:
        raise CannotError(f"{head.name} no longer lists {target.name}: nothing was told to stop")
    if phase_of(job).terminal:
        return False
    if target.submitted_at and _stamp(job) != target.submitted_at:
        raise CannotError(f"{target.name} is another job now: nothing was told to stop")
    return True


async def _end(head: Head, target: Target, grace: float, clock: Clock) -> None:
    lost: str | None = None
    try:
        if not await head.stop_job(target.name):
            lost = f"{head.name} says that it has nothing to stop under {target.name}"
    except LostAnswerError as error:
        lost = f"the answer to its stop was lost: {clean(str(error), 300)}"
    except HttpError as error:
        why = clean(str(error), 400)
        raise CannotError(f"{target.name} was not told to stop: {why}") from error
    await _wait_for_end(head, target, grace, lost, clock)


async def _wait_for_end(
    head: Head, target: Target, grace: float, lost: str | None, clock: Clock
) -> None:
    """Wait until the head says that it is over; ``lost`` is why the stop may not have arrived."""
    left = Awake(grace + GONE_WITHIN, MAX_POLL_GAP, clock.monotonic)
    waits = Awake(WAITS_FOR, MAX_POLL_GAP, clock.monotonic)
    last = lost or "it has not said that it is over"
    while left.left() > 0:
        try:
            job = await head.find(target.name)
        except HttpError as error:
            last = clean(str(error), 300)
        else:
            if job is None:
                text = f"{head.name} has forgotten {target.name}: has it begun anew?"
                raise LostError(text)
            if phase_of(job).terminal:
                return
            last = lost or f"it is {clean(job.status, 40)} still"
            if phase_of(job) is Phase.WAITING and waits.left() <= 0 and lost is None:
                raise CannotError(_heedless(target))
        await clock.sleep(POLL_EVERY)
    raise LostError(f"{target.name} was told to stop; cannot tell whether it ends: {last}")


def _heedless(target: Target) -> str:
    return (
        f"{target.name} waits and does not heed its stop, which Ray keeps for when it begins; "
        f"free what it waits for, or let Ray give it up (RAY_JOB_START_TIMEOUT_SECONDS, 15 min); "
        f"DELETE is refused until then"
    )


def _stamp(job: RayJob) -> str:
    return "" if job.submitted_at is None else f"{job.submitted_at:.3f}"


NO_WAY: Final = (
    "Ray sends a driver nothing but its end: name a command that asks the trainer, run here "
    "(job.save_command, with {job_id})"
)


def why_no_save(run: RunSpec) -> str | None:
    """Return why a trainer cannot be asked, ``None`` if it can."""
    return None if run.job is not None and run.job.save_command else NO_WAY


async def save(run: RunSpec, live: LiveJob) -> None:
    """Run ``save_command`` in ``workdir``; raises ``CannotError`` and ``LostError``."""
    why = why_no_save(run)
    if why is not None:
        raise CannotError(why)
    await save_by_command(HERE_LINK, run, live)
