"""The protocol by which a job is launched, looked up and ended, on every platform (SPEC A).

accept, go, look up, close: a platform answers ``offer``, ``release``, ``find`` and ``close``, and
its jobs to end are an ``EndingJobs``. Who lives in the lineage right before a start, what a lost
answer means, the waits, the deadlines and their words are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.jobs import Accepted, LaunchState, Live, LiveJob, LookUp, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError, Platform
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.moment import Awake
from cockpit.text.scrub import shown

NOTHING_STARTED: Final = "nothing was started"

NOTHING_STOPPED: Final = "nothing was told to stop"
GRACE: Final = 60.0
"""Seconds that a job has to save and leave, where its run names no job."""
NO_ANSWER: Final = "no answer in time"
UNREACHED: Final = (LostError, HttpError, TimeoutError)
"""What is raised where a system gave no answer."""
MAX_POLL_GAP: Final = 16.0
"""Seconds between two looks beyond which this process was suspended; they do not count."""


class EndingJobs(ABC):
    """Jobs of one system that are told to end, and looked at until they have.

    Another job that has taken the name of one of them is never one of them: it has ended, or
    ``CannotError`` is raised.
    """

    slack: ClassVar[float]
    """Seconds beyond ``job.grace`` after which it is not known whether they will end."""
    every: float = 0.5
    """Seconds between two looks."""
    told = False
    """Whether any of them may have been told to end."""

    @abstractmethod
    async def left(self) -> Sequence[str]:
        """Return, for people, which of them live and how; nothing once all have ended.

        Raises ``LostError`` where that is not known now, ``CannotError`` where one will not end.
        """

    @abstractmethod
    async def tell(self, *, late: bool) -> None:
        """Tell those to end that live and are not ending yet; ``late``: their grace is over.

        Raises ``LostError`` where an answer is lost: it is asked for again. Raises
        ``CannotError`` where one is refused.
        """

    async def noted(self, clock: Clock) -> None:
        """Wait, once they have ended, for what their system still has to note of that."""
        return

    def unreached(self, why: object) -> CannotError | LostError:
        """Return what to raise where the system was not reached, and so told nothing now."""
        return LostError(str(why)) if self.told else CannotError(f"{why}; {NOTHING_STOPPED}")


async def end_jobs(run: RunSpec, jobs: EndingJobs, clock: Clock) -> None:
    """Return when the jobs have ended; raises as ``Platform.stop`` does.

    Before anything was told to end, whoever cannot be asked is told nothing.
    """
    try:
        left = await jobs.left()
    except LostError as error:
        raise CannotError(f"{error}; {NOTHING_STOPPED}") from error
    within = jobs.slack + (GRACE if run.job is None else run.job.grace)
    until = Awake(within, MAX_POLL_GAP, clock.monotonic)
    unheard = unseen = ""
    while left:
        try:
            await jobs.tell(late=until.left() <= jobs.slack)
        except LostError as error:
            unheard = str(error)
        if until.left() <= 0:
            raise LostError(_not_gone(within, left, unheard, unseen))
        await clock.sleep(jobs.every)
        try:
            left = await jobs.left()
            unheard = unseen = ""
        except LostError as error:
            unseen = str(error)
    await jobs.noted(clock)


def _not_gone(within: float, left: Sequence[str], unheard: str, unseen: str) -> str:
    """Say what lives, or lived at the last look; ``unheard`` is why a stop may not have arrived."""
    names = ", ".join(left[:10])
    if unseen:
        text = f"cannot tell whether it is gone after {within:g} s: {unseen}; last seen: {names}"
    else:
        text = f"not gone in {within:g} s: {names}"
    return f"{text}; {unheard}" if unheard else f"told to stop, and {text}"


def beside(live: Live) -> str | None:
    """Return why nothing may be started beside what lives of a lineage; ``None``: it may."""
    if live.unknown is not None:
        return f"cannot tell whether a job is alive: {live.unknown}"
    names = "; ".join(f"{job.id} {job.name} ({job.why})" for job in live.jobs)
    return f"a job of this lineage is still alive: {names}" if names else None


def absent(text: str) -> LookUp:
    """Return that a launch never came, and that nothing can come any more."""
    return LookUp(found=LaunchState.ABSENT, text=text)


def looked_up(
    job_id: str,
    text: str,
    *,
    lives: bool | None,
    waits_for: str | None = None,
    bundle: str | None = None,
) -> LookUp:
    """Return a job that has come under a launch id; ``lives`` is ``None`` where that is unknown."""
    states = {True: LaunchState.LIVE, False: LaunchState.ENDED, None: LaunchState.UNKNOWN}
    waits = None if not lives else waits_for
    return LookUp(
        found=states[lives],
        text=text,
        job_id=job_id,
        waits=waits is not None,
        reason=waits or None,
        bundle=bundle,
    )


class LaunchingPlatform(Platform):
    """A platform that acts on its jobs by the protocol."""

    acts: ClassVar[bool] = True

    async def used_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that the system knows; raises as ``find`` does."""
        return frozenset()

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return what the system has under a launch id, and change nothing.

        A text says what is there where nothing has begun and something may still come.

        Raises ``CannotError`` or ``LostError`` where that is not known; ``handle`` is that of
        ``look_up``.
        """
        raise NotImplementedError

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """End what waits under a launch id and see to it that nothing comes; what did come, if so.

        Raises as ``find`` does.
        """
        raise NotImplementedError

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the id is free and the launch could be made; raises ``CannotError``."""

    async def check_alone(self, run: RunSpec) -> None:
        """See that no job of the lineage lives: whoever does may hold none of our locks (C-25).

        Raises ``CannotError``, also where that cannot be told.
        """
        live = (await self.live([run]))[run.name]
        why = beside(live)
        if why is not None:
            raise CannotError(why if live.unknown is not None else f"{why}; {NOTHING_STARTED}")

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Take a submission in, as ``accept`` does."""
        raise NotImplementedError

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Let an accepted job run, as ``go`` does."""
        raise NotImplementedError

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what ends exactly these jobs; raises ``CannotError`` for one that is not ours."""
        raise NotImplementedError

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that the system itself knows; raises ``CannotError``."""
        try:
            return await self.used_ids(run)
        except UNREACHED as error:
            raise CannotError(_why(error)) from None

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        """Return what became of a launch id; one under which nothing came is closed by looking."""
        try:
            found = await self.find(run, launch_id, handle)
            if isinstance(found, str) and not settle:
                raise LostError(f"{found}; a look-up that may act closes it")
            if isinstance(found, str):
                found = await self.close(run, launch_id, handle)
            return found
        except (CannotError, *UNREACHED) as error:
            text = f"cannot tell whether {launch_id} was started: {_why(error)}"
        return LookUp(found=LaunchState.UNKNOWN, text=text)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Take a submission in while its id is free and nothing of its lineage lives."""
        self.name_for(submission.launch_id)
        if not submission.command:
            raise CannotError("no command to run")
        if any("\0" in text for text in (*submission.command, *submission.env.values())):
            raise CannotError("the command or its environment holds a zero byte")
        await self._check(run, submission)
        try:
            return await self.offer(run, submission)
        except (LostAnswerError, TimeoutError) as error:  # it may have been taken in all the same
            raise LostError(_why(error)) from error
        except HttpError as error:
            raise CannotError(f"{_why(error)}; {NOTHING_STARTED}") from error

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let an accepted job run, if still nothing of its lineage lives."""
        await self._check(run, accepted.submission)
        return await self.release(run, accepted)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and wait for their real end."""
        await end_jobs(run, self.ending(run, jobs), self._clock)

    async def _check(self, run: RunSpec, submission: Submission) -> None:
        try:
            await self.check_unused(run, submission)
            await self.check_alone(run)
        except (HttpError, TimeoutError) as error:
            raise CannotError(f"{_why(error)}; {NOTHING_STARTED}") from error


def _why(error: Exception) -> str:
    return shown(error, 400) or NO_ANSWER
