"""Trackers whose files hold rows of metrics: what their readers share (SPEC S-15).

An adapter reads one kind of tracker and gives out records. From these come the rows, the
tracker facet's value, and the facet itself, which never raises and never hangs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Final, NamedTuple, Protocol

from cockpit.model.base import step_of
from cockpit.model.clock import Clock
from cockpit.model.facet import (
    TrackerAlert,
    TrackerKind,
)
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import MetricNames
from cockpit.sources.wandb.decode import STEPS_UNIT, StepRate, rated, usual_step_seconds
from cockpit.sources.wandb.history import LossColumns, RowChunk, Series
from cockpit.sources.wandb.metrics import (
    WANDB_STEP,
    MetricKeys,
    Stamps,
    choose,
    interesting,
    offset_of,
    true_time,
)
from cockpit.sources.wandb.metrics import ClockReading as Look
from cockpit.sources.wandb.run_files import ShownConfig, with_state
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


class Record(NamedTuple):
    """What was logged at once: the step that it was logged under, its time (epoch s), metrics."""

    step: int | None
    at: float | None
    values: Mapping[str, float]


class Batch(NamedTuple):
    """The records behind a cursor, in order, and the cursor behind the last of them.

    ``caught_up``: nothing more is there for now. ``share``: how much of the files, 0 to 1, all
    records up to these are. ``skipped``: damaged ones that were passed over.
    """

    records: list[Record]
    cursor: Hashable
    caught_up: bool
    share: float
    skipped: int = 0


class About(NamedTuple):
    """What the files say of the run itself; all text is foreign. ``mtime`` is their newest write.

    ``identity`` is another one when the files were replaced, and ``version`` when anything in
    them has changed.
    """

    id: str
    name: str
    project: str | None
    producer: str
    files: tuple[str, ...]
    mtime: float
    identity: Hashable
    version: Hashable
    config: Mapping[str, object] = {}
    alerts: tuple[TrackerAlert, ...] = ()
    notes: tuple[str, ...] = ()
    """What else lies there that is not read; safe text, one line each."""
    without_loss: tuple[str, ...] = ()
    """What is worth knowing besides, where no loss is found in the records."""
    state: str | None = None
    """What the tracker says of the run itself: a state of ``TrackerValue``."""
    url: str | None = None
    metrics: tuple[str, ...] | None = None
    """The names of all metrics, where the tracker lists them."""


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


ENDED: Final = frozenset(("finished", "failed", "killed", "crashed"))
"""States of a run that is over."""
TAIL: Final = 200
"""Records at the end that every look reads: they tell the usual step and the newest of each."""
SHAPES: Final = 200
"""Different sets of names that are remembered of a run: those that tell which key is which."""


class Names:
    """Which metrics a run logs together, learned from its records; bounded."""

    def __init__(self, configured: MetricNames) -> None:
        self.keys = MetricKeys()
        self._configured = configured
        self._shapes: dict[frozenset[str], None] = {}
        self._noticed: set[tuple[str, ...]] = set()

    def _matters(self, name: str) -> bool:
        return interesting(name, self._configured)

    def notice(self, records: Sequence[Record]) -> None:
        """Learn from records, and choose the keys anew if there is anything new."""
        known = len(self._shapes)
        for record in records:
            names = tuple(record.values)
            if names in self._noticed or len(self._shapes) >= SHAPES:
                continue
            if len(self._noticed) < SHAPES:
                self._noticed.add(names)
            self._shapes.setdefault(frozenset(each for each in names if self._matters(each)))
        if len(self._shapes) != known:
            self.keys = choose(list(self._shapes), self._configured, self.keys)


class RunRows:
    """A ``RunReader`` of what an adapter gives; safe from any thread."""

    def __init__(self, kind: TrackerKind, log: Adapter, configured: MetricNames) -> None:
        self._kind = kind
        self._log = log
        self._lock = Lock()
        self._names = Names(configured)
        self._reading = _Reading(None, MetricKeys())
        self._config = ShownConfig()
        self._clock_look: Look | None = None
        self._value: tuple[Hashable, TrackerValue] | None = None
        self.read_out = False

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as the records were looked at."""
        return self._names.keys

    def value(self, clock: Clock) -> TrackerValue:
        """Return what is known now: the newest rows, the loss over all rows as far as read."""
        with self._lock:
            about = self._log.about()
            records, _ = self._newest(about, TAIL)
            self._names.notice(records)
            reading = self._reading
            self.read_out = self._goes_on(about) and reading.read_to == about.version
            self.read_out = self.read_out and not reading.waiting
            offset = self._offset(about, records)
            seen = (about.version, self._names.keys, self._reading.progress, offset)
            if self._value is None or self._value[0] != seen:
                self._value = (seen, self._made(about, records, offset))
            ended = about.state in ENDED
            return self._value[1] if ended else with_state(self._value[1], clock.now())

    def more(self) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""
        with self._lock:
            about = self._log.about()
            restarted = self._began_anew(about)
            reading = self._reading
            if not reading.waiting:
                self._read(about)
            caught_up = reading.read_to is not None
            rows = rated(self._plain(reading.waiting), self._names.keys, reading.rate)
            reading.give(rows)
            share = 1.0 if caught_up else reading.share
            return RowChunk(tuple(rows), caught_up, restarted, share)

    def _read(self, about: About) -> None:
        """Read on where anything may have been logged since; the records wait to be given out."""
        reading = self._reading
        if reading.read_to is not None and reading.read_to == about.version:
            return
        batch = self._log.after(reading.cursor)
        self._names.notice(batch.records)
        if reading.cursor is None:
            reading.keys = self._names.keys
        reading.took(batch, about.version)

    def _newest(self, about: About, count: int) -> tuple[list[Record], float]:
        """Return the last records: once all was read those that were read last."""
        reading, kept = self._reading, count <= TAIL and self._log.reads_on
        if kept and self._goes_on(about) and reading.read_to is not None:
            self._read(about)
            if reading.read_to is not None:
                records = [*reading.tail][-count:]
                return records, len(records) / max(1, reading.records)
        return self._log.newest(count)

    def _goes_on(self, about: About) -> bool:
        """Tell whether what was read is still the run's beginning, under the same keys."""
        reading = self._reading
        return (about.identity, self._names.keys) == (reading.identity, reading.keys)

    def recent(self, most: int) -> RowChunk:
        """Return the last rows, without reading the ones before them."""
        with self._lock:
            records, share = self._newest(self._log.about(), most)
            self._names.notice(records)
            rows = [row for row in self._plain(records) if row is not None]
            return RowChunk(tuple(rated(rows, self._names.keys, StepRate())), True, False, share)

    def rewind(self) -> None:
        """Give out every row from the first one again: another source has stood in meanwhile."""
        with self._lock:
            self._reading = _Reading(None, self._names.keys)
            self._reading.cursor, self.read_out = 0, False  # so that it is said

    def names(self) -> set[str]:
        """Return the metrics in the first records and in the newest."""
        with self._lock:
            about = self._log.about()
            if about.metrics is not None:
                return set(about.metrics)
            records = [*self._log.after(None).records, *self._log.newest(TAIL)[0]]
        return {name for record in records for name in record.values}

    def _began_anew(self, about: About) -> bool:
        """Begin anew where files or keys are others than before; True if rows were given out."""
        former = self._reading
        if self._goes_on(about):
            return False
        self._reading = _Reading(about.identity, self._names.keys)
        return former.cursor is not None

    def _plain(self, records: Sequence[Record]) -> list[Row]:
        offset = 0.0 if self._clock_look is None else self._clock_look.offset
        return [row_of(record, self._names.keys, offset) for record in records]

    def _offset(self, about: About, records: Sequence[Record]) -> float:
        """Return how far the trainer's clock is off, by when the files were written."""
        times = (true_time(each.at) for each in records)
        newest = max((at for at in times if at is not None), default=None)
        offset = offset_of(Stamps(row=newest), about.mtime, self._clock_look)
        self._clock_look = Look(Stamps(row=newest), about.mtime, offset)
        return offset

    def _made(self, about: About, records: Sequence[Record], offset: float) -> TrackerValue:
        rows, keys = self._plain(records), self._names.keys
        newest = newest_values(rows, keys)
        counts = keys.step == WANDB_STEP and not self._kind.own_steps
        usual = usual_step_seconds(rows)
        rate, unit = newest.throughput, keys.unit
        if keys.throughput is None and usual is not None:
            rate, unit = 1.0 / usual, STEPS_UNIT
        read = self._reading.share
        series = Series(self._reading.columns, rows, rows, read)
        value = TrackerValue(
            id=_text(about.id),
            name=_text(about.name),
            project=_text(about.project),
            url=_text(about.url),
            state=about.state or ("running" if records else "starting"),
            step=newest.step,
            counts_calls=counts and _counts_calls(rows),
            loss=newest.loss,
            throughput=rate,
            throughput_unit=unit,
            grad_norm=newest.grad_norm,
            last_step_at=newest.at,
            last_record_at=newest.at,
            file_mtime=about.mtime,
            producer=_text(about.producer),
            fragments=tuple(
                clean(path.rpartition("/")[2]) for path in about.files if not path.endswith("-wal")
            ),
            files=about.files,
            skipped_blocks=self._reading.skipped,
            scanned=read,
            usual_step_s=usual,
            clock_offset_s=offset or None,
            config=self._config.shown(dict(about.config)),
            alerts=about.alerts,
            tracker=self._kind.name,
            notes=about.notes + (about.without_loss if keys.loss is None else ()),
        )
        # A thousand columns of our own making: not validated again.
        return value.model_copy(update={"history": series.points(), "columns": series.columns()})


class _Reading:
    """How far the records were read, which wait to be given out, and the loss of the others."""

    def __init__(self, identity: Hashable, keys: MetricKeys) -> None:
        self.identity = identity
        self.keys = keys
        self.cursor: Hashable = None
        self.read_to: Hashable = None
        """The version of the files all of which was read; ``None`` while more is there."""
        self.waiting: list[Record] = []
        self.tail: deque[Record] = deque(maxlen=TAIL)
        self.columns = LossColumns()
        self.rate = StepRate()
        self.records = self.skipped = 0
        self.share = 0.0

    @property
    def progress(self) -> Hashable:
        """What a later state is compared with: equal means that nothing more was given out."""
        return self.records - len(self.waiting), self.share, self.skipped

    def took(self, batch: Batch, version: Hashable) -> None:
        """Note what was read."""
        self.cursor = batch.cursor
        self.read_to = version if batch.caught_up else None
        self.records += len(batch.records)
        self.skipped += batch.skipped
        self.share = 1.0 if batch.caught_up else min(batch.share, 0.999)
        self.waiting += batch.records
        self.tail.extend(batch.records)

    def give(self, rows: Sequence[Row]) -> None:
        """Note that all that has waited is given out as ``rows``."""
        self.waiting = []
        self.columns.add(rows)


def row_of(record: Record, keys: MetricKeys, offset: float) -> Row:
    """Return a record as a row, its time on our clock."""
    values = record.values
    own, at = keys.step != WANDB_STEP, true_time(record.at)
    return Row(
        step_of(values.get(keys.step) if own else record.step),
        None if at is None else at - offset,
        values.get(keys.loss) if keys.loss else None,
        values.get(keys.throughput) if keys.throughput else None,
        values.get(keys.grad_norm) if keys.grad_norm else None,
        False,
        *[values.get(name) if name else None for name in keys.other_names],
    )


def newest_values(rows: Sequence[Row], keys: MetricKeys) -> Row:
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


def _text(raw: str | None) -> str | None:
    return scrub(clean(raw, 300)) or None
