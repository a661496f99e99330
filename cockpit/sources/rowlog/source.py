"""The tracker facet of runs whose tracker is a file: never raises, never hangs (SPEC S-15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.observed import TrackerValue
from cockpit.model.place import Place
from cockpit.model.query import Query
from cockpit.model.run import RunSpec
from cockpit.runtime.offload import offload
from cockpit.sources.rowlog.records import BadFileError
from cockpit.sources.rowlog.rows import RunRows
from cockpit.sources.wandb.history import RowChunk
from cockpit.text.safe import clean

DEADLINE: Final = 5.0
"""Seconds after which a file system that does not answer is given up for this time."""
NOTHING: Final = RowChunk((), caught_up=True, restarted=False, share=0.0)
Spec = TypeVar("Spec", bound=Frozen)
T = TypeVar("T")


class FileTracker(Generic[Spec]):
    """One kind of tracker. ``name`` is what people call it."""

    def __init__(
        self,
        clock: Clock,
        name: str,
        spec_of: Callable[[RunSpec], Spec | None],
        place_of: Callable[[Spec], Place],
        make: Callable[[Spec], RunRows],
    ) -> None:
        self._clock = clock
        self._name = name
        self._spec_of = spec_of
        self._place_of = place_of
        self._make = make
        self._runs: dict[str, tuple[Spec, RunRows]] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name."""
        facets = await asyncio.gather(*(self._observe(query.run) for query in queries))
        return {query.name: facet for query, facet in zip(queries, facets, strict=True)}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from the first one on, then what is new."""
        return await self._chunk(run, lambda rows: rows.more())

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        return await self._chunk(run, lambda own: own.recent(rows))

    async def _chunk(self, run: RunSpec, read: Callable[[RunRows], RowChunk]) -> RowChunk:
        spec = self._spec_of(run)
        if spec is None or not self._place_of(spec).here:
            return NOTHING
        rows = self._rows_of(run, spec)
        outcome = await _settled(lambda: read(rows))
        return outcome if isinstance(outcome, RowChunk) else NOTHING

    async def _observe(self, run: RunSpec) -> Facet[TrackerValue]:
        spec = self._spec_of(run)
        if spec is None:
            return not_configured(f"[run.{self._name.lower()}]")
        place, now = self._place_of(spec), self._clock.now()
        source = f"{self._name} in {clean(str(place), 300)}"
        if not place.here:
            text = f"{clean(str(place), 300)}: {self._name} files there are not read yet"
            return unknown(ErrorKind.UNSUPPORTED, text, source, now)
        rows = self._rows_of(run, spec)
        outcome = await _settled(lambda: rows.value(self._clock))
        now = self._clock.now()
        if isinstance(outcome, TrackerValue):
            return known(outcome, source, now)
        return unknown(*_problem(outcome, clean(place.path, 300)), source, now)

    def _rows_of(self, run: RunSpec, spec: Spec) -> RunRows:
        former = self._runs.get(run.name)
        if former is None or former[0] != spec:
            former = self._runs[run.name] = (spec, self._make(spec))
        return former[1]


async def _settled(read: Callable[[], T]) -> T | OSError | BadFileError:
    """Return what ``read`` returns, or the way in which the files could not be read."""
    try:
        return await offload(read, deadline=DEADLINE)
    except (OSError, BadFileError) as error:
        return error


def _problem(error: OSError | BadFileError, place: str) -> tuple[ErrorKind, str]:
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT, f"{place} does not answer ({clean(error)})"
    if isinstance(error, PermissionError):
        return ErrorKind.PERMISSION, f"{place} may not be read by this user"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        missing = clean(error) if error.errno is None else f"there is no {place}"
        return ErrorKind.NOT_FOUND, missing
    reason = clean(error.strerror if isinstance(error, OSError) and error.strerror else error)
    return ErrorKind.BAD_ANSWER, reason if place in reason else f"{place}: {reason}"
