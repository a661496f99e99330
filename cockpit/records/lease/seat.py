"""Where the lease of a run lies: one value that is read and swapped (SPEC A, "Two machines").

A file under the output root (here or on an ssh host), an object of a bucket, a ref on a git remote:
each is a ``Seat``. Who may take the lease is one thing for all (``cockpit.records.lease.lease``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

from cockpit.model.plan import Level
from cockpit.model.run import RunSpec
from cockpit.records.lease.state import LeaseState


class CannotAskError(Exception):
    """The lease cannot be used here or now, and nothing was put; the message is one line."""

    level: ClassVar[Level] = Level.WARN
    unanswered: ClassVar[bool] = False


class NoAnswerError(CannotAskError):
    """Whoever keeps the lease was asked, and did not tell; nothing was put."""

    unanswered = True


class UnsureError(NoAnswerError):
    """Nobody told whether a swap went through: it may have, and it may yet."""


class BarredError(CannotAskError):
    """Nobody may act there from here, or now."""

    level = Level.BLOCK


class Found(NamedTuple):
    """What lies at a seat. ``word`` tells it from all that ever lay there; ``foreign``: no lease.

    ``noted`` is the highest launch id that is noted beside it, ``launched_by`` the other machine
    that runs it, and ``closed`` why nothing can be put there. ``partial``: it does not lie at
    every place that it must lie at, so it may keep nobody away.
    """

    word: str = ""
    state: LeaseState | None = None
    foreign: bool = False
    noted: str | None = None
    launched_by: str | None = None
    closed: str | None = None
    partial: bool = False


class Seat(ABC):
    """The place of one run's lease. Both calls raise ``CannotAskError``, and have a deadline.

    ``name`` is what it is called, ``place`` where it lies.
    """

    name: str
    place: str

    @abstractmethod
    async def read(self) -> Found:
        """Return what lies there at this moment."""

    @abstractmethod
    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put ``state`` in the place of what ``word`` tells; False if something else is there.

        Raises ``UnsureError`` where the answer was lost. The same may be put once more after it.
        """


Seats = Callable[[RunSpec], Awaitable[Seat]]
"""Returns where a run's lease lies; raises ``CannotAskError``, ``GitError``, ``OSError``."""
