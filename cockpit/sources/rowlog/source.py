"""The tracker facet of runs whose tracker is a file: never raises, never hangs (SPEC S-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.logs.pieces import LaterError
from cockpit.sources.logs.remote import HostError
from cockpit.sources.rowlog.away import Away
from cockpit.sources.rowlog.records import BadFileError
from cockpit.sources.rowlog.rows import RunRows
from cockpit.sources.wandb.delivery import Delivery, unreadable
from cockpit.sources.wandb.history import RowChunk
from cockpit.text.safe import clean

DEADLINE: Final = 5.0
"""Seconds after which a file system that does not answer is given up for this time."""
AWAY: Final = 10.0
"""The same for files on a host, whose bytes are asked for in a few trips."""
NOTHING: Final = RowChunk((), caught_up=True, restarted=False, share=0.0)
Spec = TypeVar("Spec", bound=Frozen)
T = TypeVar("T")


@dataclass(frozen=True)
class _Own(Generic[Spec]):
    """What one run's settings name, what reads it, and its rows on their way."""

    spec: Spec
    rows: RunRows
    delivery: Delivery


class FileTracker(Generic[Spec]):
    """One kind of tracker. ``name`` is what people call it."""

    def __init__(
        self,
        clock: Clock,
        name: str,
        spec_of: Callable[[RunSpec], Spec | None],
        place_of: Callable[[Spec], Place],
        make: Callable[[Spec], RunRows],
        away: Away,
    ) -> None:
        """``away`` has the files that lie on hosts, which ``make``'s readers read."""
        self._clock = clock
        self._away = away
        self._name = name
        self._spec_of = spec_of
        self._place_of = place_of
        self._make = make
        self._runs: dict[str, _Own[Spec]] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name."""
        places = (self._place(query.run) for query in queries)
        await self._away.look(place for place in places if place and place.scheme == SSH)
        facets = await asyncio.gather(*(self._observe(query.run) for query in queries))
        return {query.name: facet for query, facet in zip(queries, facets, strict=True)}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from the first one on, then what is new.

        What a read that took too long has read comes with the next call.
        """
        return await self._chunk(run, lambda own, deadline: own.delivery.next(deadline))

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        return await self._chunk(
            run, lambda own, deadline: offload(own.rows.recent, rows, deadline=deadline)
        )

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""
        for name in names:
            self._runs.pop(name, None)

    async def _chunk(
        self, run: RunSpec, read: Callable[[_Own[Spec], float], Awaitable[RowChunk]]
    ) -> RowChunk:
        """Return the rows, or why there are none."""
        spec, place = self._spec_of(run), self._place(run)
        if spec is None or place is None or not _is_read(place):
            return NOTHING
        try:
            return await read(self._own(run, spec), _deadline(place))
        except (OSError, BadFileError) as error:
            return unreadable(_problem(error, _spelled(place))[1])

    def _place(self, run: RunSpec) -> Place | None:
        spec = self._spec_of(run)
        return None if spec is None else self._place_of(spec)

    async def _observe(self, run: RunSpec) -> Facet[TrackerValue]:
        spec = self._spec_of(run)
        if spec is None:
            return not_configured(f"[run.{self._name.lower()}]")
        place, now = self._place_of(spec), self._clock.now()
        source = f"{self._name} in {clean(str(place), 300)}"
        if not _is_read(place):
            text = f"{clean(str(place), 300)}: {self._name} files there cannot be read yet"
            return unknown(ErrorKind.UNSUPPORTED, text, source, now)
        rows = self._own(run, spec).rows
        outcome = await _settled(lambda: rows.value(self._clock), place)
        now = self._clock.now()
        if isinstance(outcome, TrackerValue):
            return known(outcome, source, now)
        return unknown(*_problem(outcome, _spelled(place)), source, now)

    def _own(self, run: RunSpec, spec: Spec) -> _Own[Spec]:
        former = self._runs.get(run.name)
        if former is None or former.spec != spec:
            rows = self._make(spec)
            former = self._runs[run.name] = _Own(spec, rows, Delivery(rows.more))
        return former


def _deadline(place: Place) -> float:
    return DEADLINE if place.here else AWAY


def _is_read(place: Place) -> bool:
    return place.here or place.scheme == SSH


def _spelled(place: Place) -> str:
    return clean(place.path if place.here else str(place), 300)


async def _settled(read: Callable[[], T], place: Place) -> T | OSError | BadFileError:
    """Return what ``read`` returns, or the way in which the files could not be read."""
    try:
        return await offload(read, deadline=_deadline(place))
    except (OSError, BadFileError) as error:
        return error


def _problem(error: OSError | BadFileError, place: str) -> tuple[ErrorKind, str]:
    if isinstance(error, HostError):
        return error.kind, clean(error.strerror, 500)
    if isinstance(error, LaterError):
        return ErrorKind.TIMEOUT, f"{place}: {clean(error.strerror)}"
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT, f"{place} does not answer ({clean(error)})"
    if isinstance(error, PermissionError):
        return ErrorKind.PERMISSION, f"{place} may not be read by this user"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        missing = clean(error) if error.errno is None else f"there is no {place}"
        return ErrorKind.NOT_FOUND, missing
    reason = clean(error.strerror if isinstance(error, OSError) and error.strerror else error)
    return ErrorKind.BAD_ANSWER, reason if place in reason else f"{place}: {reason}"
