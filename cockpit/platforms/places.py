"""One question to each place, however many runs: what goes wrong there is told of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Live
from cockpit.model.observed import JobValue
from cockpit.platforms.base import LostError
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean

LONGEST: Final = 400


CLOCK_OFF: Final = 60.0
"""Seconds by which the clock of a place may differ from ours, and is right."""
STEADY: Final = 30.0
"""Seconds by which an offset must change before it is another one: starts must not move."""
_INSTANTS: Final = (
    *("pending_since", "started_at", "ended_at", "expected_start", "ends_by", "preempted_at"),
)


class PlaceClock:
    """The clock of a place beside ours: it is ``off`` seconds ahead, 0 where it is right."""

    def __init__(self) -> None:
        self.off = 0.0

    def learn(self, date: float | None, now: float) -> None:
        """Take note of the time that it shows, if it does, by a figure that does not wobble."""
        if date is not None:
            off = date - now if abs(date - now) >= CLOCK_OFF else 0.0
            self.off = off if abs(off - self.off) >= STEADY else self.off

    def ours(self, at: float) -> float:
        """Return one of its times on our clock."""
        return at - self.off

    def value(self, job: JobValue) -> JobValue:
        """Return a job with all of its times on our clock."""
        own = {name: getattr(job, name) for name in _INSTANTS} if self.off else {}
        moved = {name: self.ours(at) for name, at in own.items() if at is not None}
        return job.model_copy(update=moved)


class UnansweredError(LostError):
    """A place gave no answer: ``kind`` is that of a facet, ``remedy`` what a person can do."""

    def __init__(self, kind: ErrorKind, text: str, remedy: str = "") -> None:
        super().__init__("; ".join(filter(None, (text, remedy))))
        self.kind = kind
        self.text = text
        self.remedy = remedy


class _Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Hashable)
T = TypeVar("T", bound=_Named)
V = TypeVar("V")
Failure = HttpError | UnansweredError


def by_place(items: Iterable[T], place_of: Callable[[T], P]) -> dict[P, list[T]]:
    """Return queries or runs by the place that answers for them."""
    groups: dict[P, list[T]] = {}
    for each in items:
        groups.setdefault(place_of(each), []).append(each)
    return groups


async def ask_each(
    groups: Mapping[P, list[T]],
    ask: Callable[[P, list[T]], Awaitable[Mapping[str, V]]],
    failed: Callable[[P, Failure], V],
) -> dict[str, V]:
    """Return what each place answers for its runs, by their names; all places are asked at once."""

    async def one(place: P, own: list[T]) -> Mapping[str, V]:
        try:
            return await ask(place, own)
        except (HttpError, UnansweredError) as error:
            return dict.fromkeys((each.name for each in own), failed(place, error))

    answers = await asyncio.gather(*(one(*group) for group in groups.items()))
    return {name: value for answer in answers for name, value in answer.items()}


def unanswered(source: Callable[[Any], str], clock: Clock) -> Callable[[Any, Failure], Facet[Any]]:
    """Return what makes the facet of a place, named by ``source``, that gave no answer."""

    def failed(place: object, error: Failure) -> Facet[Any]:
        facet: Facet[Any] = unknown(error.kind, clean(error, LONGEST), source(place), clock.now())
        return facet.model_copy(update={"retry_after": getattr(error, "retry_in", None)})

    return failed


def unknown_lives(place: object, error: Failure) -> Live:
    """Return that nobody knows what lives at a place that gave no answer."""
    return Live(unknown=clean(error, LONGEST))


def names_of(items: Sequence[_Named]) -> list[str]:
    """Return the names of queries or runs."""
    return [each.name for each in items]
