"""A tracker whose runs are each read by a reader of its files: their facets and their rows.

``FileTracker`` never raises and never hangs. What lies on hosts is looked at together.

Trackers that hold records of metrics under their names: how these become rows (SPEC S-15).

An adapter reads one kind of tracker and gives out records; ``RecordLog`` makes rows of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from cockpit.model.base import step_of
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
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import MetricNames, RunSpec
from cockpit.runtime.offload import Call, Outcome, offload, offload_each
from cockpit.sources import metric_keys
from cockpit.sources.attempts import specs_of
from cockpit.sources.curve_fold import RowChunk, unreadable
from cockpit.sources.logs.pieces import LaterError
from cockpit.sources.logs.remote import HostError
from cockpit.sources.metric_keys import ClockReading as Look
from cockpit.sources.run_folders import BadFileError, OnHost, TrackerFiles
from cockpit.sources.run_rows import About, Newest, RowBatch, RowLog, RunRows
from cockpit.sources.wandb.decode import StepRate, rated, usual_step_seconds
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


class Record(NamedTuple):
    """What was logged at once: the step that it was logged under, its time (epoch s), metrics."""

    step: int | None
    at: float | None
    values: Mapping[str, float]


class Batch(NamedTuple):
    """The records behind a cursor, in order, and the cursor behind the last of them.

    ``caught_up``: nothing more is there for now. ``share``: how much of the files, 0 to 1, all
    records up to these are. ``skipped``: damaged ones that were passed over. ``later``: there is
    more, but none before the next look. ``whole``: but for what has just come, all was read.
    """

    records: list[Record]
    cursor: Hashable
    caught_up: bool
    share: float
    skipped: int = 0
    later: bool = False
    whole: bool = False


class Adapter(Protocol):
    """One run in one kind of tracker. Methods block and raise ``OSError`` and ``BadFileError``."""

    def about(self) -> About:
        """Look at the run anew; what the other methods read is as of this moment."""

    def after(self, cursor: Hashable) -> Batch:
        """Return the records behind ``cursor`` (``None``: from the first one on)."""

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return about the last ``count`` records in order, and what share of all they are."""

    @property
    def reads_on(self) -> bool:
        """Whether what is new is cheap to read behind a cursor, once all was read before."""


TAIL: Final = 200
"""Records at the end that every look reads: they tell the usual step and the newest of each."""
SHAPES: Final = 200
"""Different sets of names that are remembered of a run: those that tell which key is which."""


class Names:
    """Which metrics a run logs together, learned from its records; bounded."""

    def __init__(self, configured: MetricNames) -> None:
        self.keys = metric_keys.MetricKeys()
        self._configured = configured
        self._shapes: dict[frozenset[str], None] = {}
        self._noticed: set[tuple[str, ...]] = set()

    def notice(self, records: Sequence[Record]) -> None:
        """Learn from records, and choose the keys anew if there is anything new."""
        known = len(self._shapes)
        for record in records:
            names = tuple(record.values)
            if names in self._noticed or len(self._shapes) >= SHAPES:
                continue
            if len(self._noticed) < SHAPES:
                self._noticed.add(names)
            mattering = (each for each in names if metric_keys.interesting(each, self._configured))
            self._shapes.setdefault(frozenset(mattering))
        if len(self._shapes) != known:
            self.keys = metric_keys.choose(list(self._shapes), self._configured, self.keys)


class RecordLog(RowLog):
    """The rows of an adapter's records: which name is which is learned from the records."""

    def __init__(self, kind: TrackerKind, adapter: Adapter, configured: MetricNames) -> None:
        self.kind = kind
        self._adapter = adapter
        self._names = Names(configured)
        self._clock: Look | None = None
        self._told: About | None = None
        self._end: list[Row] = []
        self._begin()

    def _begin(self) -> None:
        self._cursor: Hashable = None
        self._read_to: Hashable = None
        """The version of the log all of which was read; ``None`` while more is there."""
        self._identity: Hashable = None
        self._waiting: list[Record] = []
        self._tail: deque[Record] = deque(maxlen=TAIL)
        self._rate = StepRate()
        self._records = self._skipped = 0
        self._share, self._later = 0.0, False

    def look(self) -> Hashable:
        """Ask the adapter anew."""
        self._told = self._adapter.about()
        return self._told.identity

    def about(self) -> About:
        """Return what the adapter has said at the last look."""
        assert self._told is not None, "it is looked at first"
        return self._told

    def newest(self) -> Newest:
        """Return what the last records tell."""
        records, _ = self._last(TAIL)
        self._learn(records)
        self._judge_clock(records)
        rows = self._end = self._plain(records)
        known = self._known(records, rows)
        counts = self.keys.step == metric_keys.WANDB_STEP and not self.kind.own_steps
        return Newest(
            rows, known, known.at, usual_step_seconds(rows), counts and _counts_calls(rows)
        )

    def last(self, most: int) -> tuple[list[Row], float]:
        """Return the last records as rows."""
        records, share = self._last(most)
        self._learn(records)
        return rated(self._plain(records), self.keys, StepRate()), share

    def next(self) -> RowBatch:
        """Return the rows of the next records."""
        if not self._waiting:
            self._read()
        rows = rated(self._plain(self._waiting), self.keys, self._rate)
        self._waiting = []
        caught_up = self._read_to is not None
        return RowBatch(rows, caught_up, self._share, self._skipped, self._later)

    def rewind(self) -> None:
        """Begin at the first record again."""
        self._begin()

    @property
    def read_out(self) -> bool:
        """Whether every record there was has been given out."""
        return self._read_to == self.about().version and not self._waiting

    def sampled(self) -> Sequence[Row]:
        """Return the last rows: adapters tell nothing else at once."""
        return self._end

    def names(self) -> set[str]:
        """Return the metrics in the first records and in the newest."""
        listed = self.about().metrics
        if listed is not None:
            return set(listed)
        records = [*self._adapter.after(None).records, *self._adapter.newest(TAIL)[0]]
        return {name for record in records for name in record.values}

    def _read(self) -> None:
        """Read on where anything may have been logged since; the records wait to be given out."""
        about = self.about()
        if self._read_to is not None and self._read_to == about.version:
            return
        batch = self._adapter.after(self._cursor)
        self._learn(batch.records)
        self._cursor, self._identity = batch.cursor, about.identity
        self._read_to = about.version if batch.caught_up else None
        self._records += len(batch.records)
        self._skipped += batch.skipped
        self._share = 1.0 if batch.caught_up or batch.whole else min(batch.share, 0.999)
        self._later = batch.later
        self._waiting += batch.records
        self._tail.extend(batch.records)

    def _last(self, count: int) -> tuple[list[Record], float]:
        """Return the last records: once all was read those that were read last."""
        kept = count <= TAIL and self._adapter.reads_on and self._read_to is not None
        if kept and self._identity == self.about().identity:
            self._read()
            if self._read_to is not None:
                records = [*self._tail][-count:]
                return records, len(records) / max(1, self._records)
        return self._adapter.newest(count)

    def _learn(self, records: Sequence[Record]) -> None:
        self._names.notice(records)
        self.keys = self._names.keys

    def _plain(self, records: Sequence[Record]) -> list[Row]:
        return rows_of(records, self.keys, self.offset)

    def _known(self, records: Sequence[Record], rows: Sequence[Row]) -> Row:
        """Return the newest of everything in records, whose ``rows`` are these."""
        return newest_values(rows, self.keys)

    def _judge_clock(self, records: Sequence[Record]) -> None:
        """Find out how far the trainer's clock is off, by when the log was written."""
        times = (metric_keys.true_time(each.at) for each in records)
        newest = max((at for at in times if at is not None), default=None)
        self.offset = self._offset(metric_keys.Stamps(row=newest), self.about().mtime or 0.0)

    def _offset(self, stamps: metric_keys.Stamps, written: float) -> float:
        offset = metric_keys.offset_of(stamps, written, self._clock)
        self._clock = Look(stamps, written, offset)
        return offset


_NONE: Final = "\0"
"""Nothing is logged under this name."""


def rows_of(records: Sequence[Record], keys: metric_keys.MetricKeys, offset: float) -> list[Row]:
    """Return records as rows, their times on our clock."""
    own = keys.step if keys.step != metric_keys.WANDB_STEP else None
    loss, rate, norm = (name or _NONE for name in (keys.loss, keys.throughput, keys.grad_norm))
    others = keys.other_names
    bare = keys.beside([None] * len(others)) if not any(others) else None
    rows = []
    for step, at, values in records:
        get = values.get
        at = metric_keys.true_time(at)
        beside = bare or keys.beside([get(name) if name else None for name in others])
        rows.append(tuple.__new__(Row, (  # ``Row(…)``, in half the time
            step_of(get(own) if own else step),
            None if at is None else at - offset,
            get(loss),
            get(rate),
            get(norm),
            False,
            *beside,
        )))  # fmt: skip
    return rows


def newest_values(rows: Sequence[Row], keys: metric_keys.MetricKeys) -> Row:
    """Return the newest of everything in rows; the step and its time are training's.

    Where a training metric is logged, only a row that carries one tells a step of training: an
    evaluation may be logged against its epoch, or against the samples seen.
    """
    trained = next((row for row in reversed(rows) if row.trains and row.step is not None), None)
    newest = Row(None, None)
    if trained is not None:
        newest = Row(trained.step, trained.at)
    elif keys.trains:
        rows = [row._replace(step=None) for row in rows]
    for row in reversed(rows):
        missing = [name for name, value in zip(Row._fields, newest, strict=True) if value is None]
        if not missing:
            break
        newest = newest._replace(**{name: getattr(row, name) for name in missing})
    return newest


def _counts_calls(rows: Sequence[Row]) -> bool:
    """Tell whether steps only count: a trainer that logs now and then skips some."""
    steps = [row.step for row in rows if row.step is not None]
    return all(later - step in (0, 1) for step, later in pairwise(steps))
