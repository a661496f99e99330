"""The protocol by which a job ends, the same on every platform (SPEC A).

A platform answers what still lives of the jobs that are meant, and asks them to end; the waits, the
deadline, what a lost answer means and the words are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.runtime.moment import Awake

NOTHING_STOPPED: Final = "nothing was told to stop"
GRACE: Final = 60.0
"""Seconds that a job has to save and leave, where its run names no job."""
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
    until, trouble = Awake(within, MAX_POLL_GAP, clock.monotonic), ""
    while left:
        try:
            await jobs.tell(late=until.left() <= jobs.slack)
        except LostError as error:
            trouble = str(error)
        if until.left() <= 0:
            raise LostError("; ".join(filter(None, (_not_gone(within, left), trouble))))
        await clock.sleep(jobs.every)
        try:
            left, trouble = await jobs.left(), ""
        except LostError as error:
            trouble = str(error)


def _not_gone(within: float, left: Sequence[str]) -> str:
    return f"told to stop, and not gone in {within:g} s: {', '.join(left[:10])}"
