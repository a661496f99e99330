"""Stops jobs on a Ray head by exact submission id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.protocol import MAX_POLL_GAP, NOTHING_STOPPED, EndingJobs
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


class Target(NamedTuple):
    """One execution: what Ray calls it, and when it was submitted by the head's clock."""

    name: str
    submitted_at: str


def handle_of(job: RayJob) -> dict[str, str]:
    """Return what a job is stopped by; none for a driver from outside."""
    if job.submission_id is None:
        return {}
    return {SUBMISSION: job.submission_id, STARTED: _stamp(job)}


def target_of(job: LiveJob) -> Target:
    """Return what a job is ended by; raises ``CannotError`` for a driver from outside."""
    name = job.handle.get(SUBMISSION)
    if not name:
        raise CannotError(f"{job.id}: {OUTSIDE}")
    return Target(name, job.handle.get(STARTED, ""))


class EndingRayJobs(EndingJobs):
    """Jobs of one head that are told to end by their exact submission ids."""

    slack: ClassVar[float] = GONE_WITHIN

    def __init__(self, head: Head, targets: Sequence[Target], clock: Clock) -> None:
        self._head = head
        self._left = list(targets)
        self._now: dict[Target, RayJob] = {}
        self._heard: dict[Target, Awake] = {}
        self._clock = clock

    async def left(self) -> Sequence[str]:
        """Return those of which the head does not say that they are over."""
        for target in list(self._left):
            try:
                job = await self._head.find(target.name)
            except HttpError as error:
                raise LostError(clean(str(error), 400)) from error
            if job is None and self.told:
                text = f"{self._head.name} has forgotten {target.name}: has it begun anew?"
                raise LostError(text)
            if job is None:
                text = f"{self._head.name} no longer lists {target.name}: {NOTHING_STOPPED}"
                raise CannotError(text)
            self._now[target] = job
            if phase_of(job).terminal:
                self._left.remove(target)
            elif target.submitted_at and _stamp(job) != target.submitted_at:
                raise CannotError(f"{target.name} is another job now: it was not told to stop")
            elif self._does_not_heed(target):
                raise CannotError(_heedless(target))
        return [f"{each.name} ({clean(self._now[each].status, 40)})" for each in self._left]

    async def tell(self, *, late: bool) -> None:
        """Tell each of which the head has not said that it heard it."""
        lost: list[str] = []
        for target in self._left:
            if target in self._heard:
                continue
            try:
                heard = await self._head.stop_job(target.name)
            except LostAnswerError as error:
                self.told = True
                lost.append(f"the answer to its stop was lost: {clean(str(error), 300)}")
            except HttpError as error:
                why = clean(str(error), 400)
                raise self.unreached(f"{target.name} was not told to stop: {why}") from error
            else:
                self.told = True
                if heard:
                    self._heard[target] = Awake(WAITS_FOR, MAX_POLL_GAP, self._clock.monotonic)
                else:
                    lost.append(f"{self._head.name} has nothing to stop under {target.name}")
        if lost:
            raise LostError("; ".join(lost))

    def _does_not_heed(self, target: Target) -> bool:
        """Tell whether it was told a while ago, and still only waits."""
        heard = self._heard.get(target)
        waits = phase_of(self._now[target]) is Phase.WAITING
        return heard is not None and heard.left() <= 0 and waits


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
