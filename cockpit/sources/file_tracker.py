"""A tracker whose runs are each read by a reader of its files: their facets and their rows.

``FileTracker`` never raises and never hangs. What lies on hosts is looked at together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import (
    ErrorKind,
    Facet,
    TrackerKind,
    known,
    not_configured,
    unknown,
)
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import MetricNames, RunSpec
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.sources.attempts import specs_of
from cockpit.sources.curve_fold import RowChunk, unreadable
from cockpit.sources.logs.pieces import LaterError
from cockpit.sources.logs.remote import HostError
from cockpit.sources.run_folders import BadFileError, OnHost, TrackerFiles
from cockpit.sources.run_rows import RunRows
from cockpit.text.safe import clean

DEADLINE: Final = 5.0
"""Seconds after which a file system that does not answer is given up for this time."""
AWAY: Final = 10.0
"""The same for files on a host, whose bytes are asked for in a few trips."""
NOTHING: Final = RowChunk((), caught_up=True, restarted=False, share=0.0)
Spec = Any
"""The settings of one kind of tracker: a place, and ``metrics``."""


class _Own(NamedTuple):
    """What one run's settings name, and what reads it."""

    spec: Spec
    reader: RunRows


class TrackedRuns(ABC):
    """The runs of one kind of tracker, each read by a ``RunRows``; no method raises.

    Methods that read look for what is new; ``observe`` of what is made of it tells more.
    """

    def __init__(self, clock: Clock, kind: TrackerKind, reader: Callable[[Any], RunRows]) -> None:
        """``reader`` makes it of what a run's settings name of this kind."""
        self._clock = clock
        self._kind = kind
        self._reader = reader
        self._runs: dict[str, _Own] = {}

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the facet of each run, of which its one place has answered."""
        return dict(answers)

    def best(self, run: RunSpec) -> TrackedRuns:
        """Return what a run is read by: this."""
        return self

    def reader(self, spec: Spec, names: MetricNames) -> RunRows:
        """Return a reader of all rows that a run's settings name, from the first one on."""
        found = self._reader(spec.model_copy(update={"metrics": names}))
        found.draws = False
        return found

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next chunk of every logged row, from the first one on, then what is new.

        Call it until ``caught_up``, and again when there may be more. What a read that took too
        long has read comes with the next call.
        """
        return await self._chunk(run, lambda own, deadline: own.reader.deliver(deadline))

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as far as the last look tells."""
        own = self._runs.get(run.name)
        if own is None or own.spec != self.spec(run):
            return True
        return not own.reader.read_out or own.reader.late

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the last ``rows`` rows; ``share`` is the part of the run that they cover."""
        return await self._chunk(
            run, lambda own, deadline: offload(own.reader.recent, rows, deadline=deadline)
        )

    def rewind(self, run: str) -> None:
        """Give out every row of a run from the first one again."""
        if run in self._runs:
            self._runs[run].reader.rewind()

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""
        for name in names:
            self._runs.pop(name, None)

    async def _chunk(
        self, run: RunSpec, read: Callable[[_Own, float], Awaitable[RowChunk]]
    ) -> RowChunk:
        """Return the rows, or why there are none."""
        if self._not_read(run, 0.0) is not None:
            return NOTHING
        own = self._own(run)
        try:
            return await read(own, self._deadline(own.spec))
        except (OSError, BadFileError) as error:
            return unreadable(problem(error, self._place_of(own.spec))[1])

    def spec(self, run: RunSpec) -> Spec | None:
        """Return what a run's settings name of this kind."""
        return getattr(run, self._kind.table)

    def why_not_read(self, run: RunSpec) -> str:
        """Return why nothing can be read of a run; empty where it is read."""
        facet = self._not_read(run, 0.0)
        return "" if facet is None or facet.error is None else facet.error.message

    @abstractmethod
    def _not_read(self, run: RunSpec, now: float) -> Facet[TrackerValue] | None:
        """Return why nothing is read of a run, ``None`` where it is read."""

    def _place_of(self, spec: Spec) -> Place | None:
        """Return where a run is read, where that is one place."""
        return None

    def _deadline(self, spec: Spec) -> float:
        """Return the seconds that reading a run may take."""
        return DEADLINE

    def _own(self, run: RunSpec) -> _Own:
        spec: Any = self.spec(run)
        former = self._runs.get(run.name)
        if former is None or former.spec != spec:
            former = self._runs[run.name] = _Own(spec, self._reader(spec))
        return former


class FileTracker(TrackedRuns):
    """A kind of tracker whose runs lie at one place each; ``observe`` never raises.

    A value is quick on a file of any size. What a run's files on a host have new comes with one
    look at that host for all of them.
    """

    def __init__(
        self,
        clock: Clock,
        kind: TrackerKind,
        place_of: Callable[[Any], Place | None],
        reader: Callable[[Any], RunRows],
        files: TrackerFiles[Any],
        sought: Callable[[Any], OnHost | None],
        title: str = "",
    ) -> None:
        """``files`` look for what is ``sought`` by a run's settings.

        ``title`` is what is read, where that is not all that this kind has.
        """
        super().__init__(clock, kind, reader)
        self._files = files
        self._sought = sought
        self._find_place = place_of
        self._title = title or kind.name

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the tracker facet of each run, by run name; each is read ``at`` one place."""
        now = self._clock.now()
        facets = {query.name: self._not_read(query.run, now) for query in queries}
        own = [self._own(query.run) for query in queries if facets[query.name] is None]
        hosts = [self._sought(spec) for each in own for spec in specs_of(self._kind, each.spec)]
        await self._files.look(each for each in hosts if each is not None)
        calls = [Call(partial(each.reader.value, self._clock), each.reader) for each in own]
        deadline = max((self._deadline(each.spec) for each in own), default=DEADLINE)
        outcomes = iter(zip(own, await offload_each(calls, deadline=deadline), strict=True))
        return {name: each or self._facet(*next(outcomes)) for name, each in facets.items()}

    def _place_of(self, spec: Spec) -> Place | None:
        return self._find_place(spec)

    def _not_read(self, run: RunSpec, now: float) -> Facet[TrackerValue] | None:
        spec, kind = self.spec(run), self._kind
        if spec is None:
            return not_configured(f"[run.{kind.table}]")
        place = self._place_of(spec)
        if place is None:
            text = f"no place to ask: {kind.nowhere}"
            return unknown(ErrorKind.NOT_FOUND, text, "run file", now)
        if not (place.here or place.scheme in kind.schemes):
            at = clean(place.endpoint, 300)
            text = f"{kind.name} files at {at} are not read yet by this version"
            return unknown(ErrorKind.UNSUPPORTED, text, self._source(place), now)
        return None

    def _source(self, place: Place | None) -> str:
        at = "in" if place is None or place.here or place.scheme == SSH else "at"
        return f"{self._title} {at} {clean(str(place))}"

    def _facet(self, own: _Own, outcome: Outcome[TrackerValue]) -> Facet[TrackerValue]:
        place, now = self._place_of(own.spec), self._clock.now()
        try:
            return known(outcome.value, self._source(place), now)
        except (OSError, BadFileError) as error:
            return unknown(*problem(error, place), self._source(place), now)

    def _deadline(self, spec: Spec) -> float:
        place = self._place_of(spec)
        return DEADLINE if place is None or place.here else AWAY


def problem(error: OSError | BadFileError, where: Place | None) -> tuple[ErrorKind, str]:
    """Return what an error of reading a run is, and its words for people."""
    place = "" if where is None else clean(where.path if where.here else str(where))
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
