"""One run of any tracker: the rows that its log gives become the facet's value and the history.

A ``RowLog`` knows one kind of log. What is made of its rows is made here, once for all kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import Attempt, TrackerAlert, TrackerKind
from cockpit.model.observed import Row, TrackerValue, Writer
from cockpit.runtime.offload import offload
from cockpit.sources.curve_fold import LossColumns, RowChunk, Series
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.wandb.decode import STEPS_UNIT
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_ENTRIES: Final = 5000
"""Values that are kept of one configuration, nested ones counted."""
_DEPTH: Final = 12


class ShownConfig:
    """Makes the shown form, and makes it again only when the configuration has changed."""

    def __init__(self) -> None:
        self._raw: dict[str, object] = {}
        self._shown: dict[str, object] = {}
        self._left = 0

    def shown(self, raw: dict[str, object]) -> dict[str, object]:
        """Return ``raw`` (JSON values) as it may be shown."""
        if raw != self._raw:
            self._raw = raw
            self._left = MOST_ENTRIES
            self._shown = self._mapping(raw, 0)
        return self._shown

    def _mapping(self, raw: dict[str, object], depth: int) -> dict[str, object]:
        safe: dict[str, object] = {}
        for key, value in raw.items():
            if self._left <= 0:
                break
            self._left -= 1
            name = scrub(clean(key))
            safe[name] = self._value(name, value, depth)
        return safe

    def _value(self, name: str, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict) and depth < _DEPTH:
            return self._mapping(value, depth + 1)
        if isinstance(value, list) and depth < _DEPTH:
            kept = value[: max(0, self._left)]
            self._left -= len(kept)
            return [self._value(name, one, depth + 1) for one in kept]
        label = f"{name}="
        return scrub(label + clean(value)).removeprefix(label)


ENDED: Final = frozenset(("finished", "failed", "killed", "crashed"))
"""States of a run that is over."""
SILENT_AFTER: Final = 600.0
"""Seconds without any write after which a run that has not ended counts as silent."""
CHUNK_ROWS: Final = 5000
"""Rows in one chunk at most."""


class About(NamedTuple):
    """What a log says of the run itself; all text is foreign.

    ``mtime`` is its newest write; ``None`` where a server watches the run and tells its state.
    ``identity`` is another one when what was read is no longer the run's beginning, and
    ``version`` when anything has changed.
    """

    id: str
    name: str | None
    project: str | None
    producer: str | None
    files: tuple[str, ...]
    mtime: float | None
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
    entity: str | None = None
    heartbeat_at: float | None = None
    exit_code: int | None = None
    git_commit: str | None = None
    slurm_job_id: str | None = None
    writers: tuple[Writer, ...] = ()
    config_since: float | None = None
    attempts: tuple[Attempt, ...] = ()
    """What stands before it in a log of several attempts."""
    earlier: tuple[Attempt, ...] = ()
    """Which runs at its place ended before it began, where none was named to be read."""
    fragments: tuple[str, ...] | None = None
    """What its files are called; ``None``: by their names."""


class Newest(NamedTuple):
    """The end of a log: its last rows, their ``share`` of all, and the newest of everything.

    ``known`` holds the newest value of each metric, the step and its time of training.
    """

    rows: Sequence[Row]
    known: Row
    record_at: float | None
    usual_step_s: float | None
    counts_calls: bool = False
    skipped: int = 0


class RowBatch(NamedTuple):
    """The next rows in order; ``share`` is how much of all, 0 to 1, those up to these are.

    ``caught_up``: nothing more is there for now. ``skipped``: damaged ones so far. ``later``:
    there is more, but none before the next look. ``joint``: they begin another attempt.
    """

    rows: list[Row]
    caught_up: bool
    share: float
    skipped: int = 0
    later: bool = False
    joint: bool = False


class RowLog(ABC):
    """What one tracker has of one run. Methods block and raise ``OSError`` and ``BadFileError``."""

    kind: TrackerKind
    keys = MetricKeys()
    """Which logged name is which, as far as anything was read."""
    offset = 0.0
    """The trainer's clock minus ours (s), as far as it is known."""
    at_hand = False
    """Whether what there is has come with the look: to read on costs nothing."""

    @abstractmethod
    def look(self) -> Hashable:
        """Look anew; what the other methods tell is as of this moment. Return the identity."""

    @abstractmethod
    def about(self) -> About:
        """Return what it says of the run."""

    @abstractmethod
    def newest(self) -> Newest:
        """Return what stands at its end, whatever its size."""

    @abstractmethod
    def last(self, most: int) -> tuple[list[Row], float]:
        """Return about the last ``most`` rows, and what share of all they are."""

    @abstractmethod
    def next(self) -> RowBatch:
        """Return the rows behind those that were given out last."""

    @abstractmethod
    def rewind(self) -> None:
        """Begin at the first row again."""

    @property
    @abstractmethod
    def read_out(self) -> bool:
        """Whether ``next`` has nothing to give by the last look."""

    @abstractmethod
    def sampled(self) -> Sequence[Row]:
        """Return rows all along it, for a drawing while it is not read yet."""

    @abstractmethod
    def names(self) -> set[str]:
        """Return the metrics that were logged."""


class RunRows:
    """The rows of one run and what is known by them; safe from any thread."""

    def __init__(self, log: RowLog) -> None:
        self.draws = True
        """Whether the loss is folded for ``value``: who only wants rows has no use for it."""
        self._log = log
        self._lock, self._delivering = Lock(), Lock()
        self._kept: RowChunk | None = None
        self._again = False
        self._reading = _Reading(None, log.keys)
        self._restarted = False
        self._config = ShownConfig()
        self._value: tuple[Hashable, TrackerValue] | None = None
        self.read_out = False
        """Whether by the last ``value`` every row that was there had been given out."""

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as anything was read."""
        return self._log.keys

    def value(self, clock: Clock) -> TrackerValue:
        """Return what is known now: the newest rows, the loss over all rows as far as read."""
        with self._lock:
            self.read_out = False
            identity = self._log.look()
            newest = self._log.newest()
            about = self._log.about()
            if self._log.at_hand:
                self._read(identity)
            goes_on = self._reading.goes_on(identity, self._log.keys)
            given = not (self._reading.ready or self._restarted or self._again)
            self.read_out = goes_on and given and self._log.read_out
            seen = (about.version, self._log.keys, self._reading.progress, self._log.offset)
            if self._value is None or self._value[0] != seen:
                self._value = (seen, self._made(about, newest))
            ended = about.state in ENDED
            return self._value[1] if ended else with_state(self._value[1], clock.now())

    async def deliver(self, deadline: float) -> RowChunk:
        """Return ``more`` in time; raises ``TimeoutError`` and what ``more`` raises.

        A read that is given up goes on in its thread: what it has read comes with the next call.
        One caller at a time.
        """
        chunk = await offload(self._deliver, deadline=deadline)
        self._kept = None  # no other read is under way: that would wait for this one
        return chunk

    def _deliver(self) -> RowChunk:
        with self._delivering:
            if self._kept is None or self._again:
                self._kept = self.more()
            return self._kept

    @property
    def late(self) -> bool:
        """Whether the next delivery gives, or may give, what no look can tell of."""
        return self._again or self._delivering.locked() or self._kept is not None

    def more(self) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""
        with self._lock:
            if self._again:
                self._again, self._restarted = False, True
                self._begin(self._reading.identity)
            identity = self._log.look()
            goes_on = self._reading.goes_on(identity, self._log.keys)
            if not self._reading.ready or not goes_on:
                self._read(identity)
            reading = self._reading
            rows, joints = reading.give(CHUNK_ROWS)
            restarted, self._restarted = self._restarted, False
            later = reading.later and not rows
            chunk = RowChunk(
                tuple(rows), reading.caught_up, restarted, reading.share, later, joints=joints
            )
            if reading.ready:
                share = min(reading.share, 0.999)
                return chunk._replace(caught_up=False, share=share, later=False)
            return chunk

    def _read(self, identity: Hashable) -> None:
        """Read on; what was read before under other keys, or of another run, begins anew."""
        if not self._reading.goes_on(identity, self._log.keys):
            self._begin(identity)
        batch = self._log.next()
        if not self._reading.rows:
            self._reading.keys = self._log.keys
        if self.draws:
            self._reading.columns.add(batch.rows)
        self._reading.take(batch)

    @property
    def waiting(self) -> int:
        """Rows that were read and not given out yet."""
        return len(self._reading.ready)

    def recent(self, most: int) -> RowChunk:
        """Return the last rows, without reading the ones before them."""
        with self._lock:
            self._log.look()
            rows, share = self._log.last(most)
            return RowChunk(tuple(rows), True, False, share)

    def rewind(self) -> None:
        """Have the next rows be the first ones again; does not wait for a read that hangs."""
        self._again = True

    def names(self) -> set[str]:
        """Return the metrics that were logged; of a reader that reads nothing else."""
        with self._lock:
            self._log.look()
            return self._log.names()

    def _begin(self, identity: Hashable) -> None:
        self._restarted = self._restarted or self._reading.rows > 0
        self._log.rewind()
        self._reading = _Reading(identity, self._log.keys)

    def _made(self, about: About, newest: Newest) -> TrackerValue:
        keys, known, log = self._log.keys, newest.known, self._log
        rate, unit = known.throughput, keys.unit
        if keys.throughput is None and newest.usual_step_s is not None:
            rate, unit = 1.0 / newest.usual_step_s, STEPS_UNIT
        read = self._reading.share
        sampled = [] if read == 1.0 else log.sampled()
        series = Series(self._reading.columns, sampled, newest.rows, read)
        value = TrackerValue(
            id=_text(about.id),
            name=_text(about.name),
            entity=_text(about.entity),
            project=_text(about.project),
            url=about.url,
            attempts=tuple(
                each.model_copy(update={"id": _text(each.id) or ""}) for each in about.attempts
            ),
            state=about.state or ("running" if newest.rows else "starting"),
            step=known.step,
            counts_calls=newest.counts_calls,
            loss=known.loss,
            throughput=rate,
            throughput_unit=unit,
            grad_norm=known.grad_norm,
            last_step_at=known.at,
            last_record_at=newest.record_at,
            heartbeat_at=about.heartbeat_at,
            file_mtime=about.mtime,
            exit_code=about.exit_code,
            git_commit=clean(about.git_commit, 64) or None,
            slurm_job_id=_text(about.slurm_job_id),
            producer=_text(about.producer),
            fragments=about.fragments or _file_names(about.files),
            files=about.files,
            writers=about.writers,
            skipped_blocks=max(self._reading.skipped, newest.skipped),
            scanned=series.share,
            usual_step_s=newest.usual_step_s,
            clock_offset_s=log.offset or None,
            config=self._config.shown(dict(about.config)),
            config_since=about.config_since,
            alerts=about.alerts,
            tracker=log.kind.name,
            earlier=about.earlier,
            notes=about.notes + (about.without_loss if keys.loss is None else ()),
        )
        # A thousand columns of our own making: not validated again.
        return value.model_copy(update={"history": series.points(), "columns": series.columns()})


class _Reading:
    """How far the rows were read, under which keys, and the loss of them all."""

    def __init__(self, identity: Hashable, keys: MetricKeys) -> None:
        self.identity = identity
        self.keys = keys
        self.columns = LossColumns()
        self.ready: list[Row] = []
        self.joints: list[int] = []
        """The numbers of the rows with which another attempt begins."""
        self.rows = self.skipped = 0
        self.share = 0.0
        self.caught_up = self.later = False

    def goes_on(self, identity: Hashable, keys: MetricKeys) -> bool:
        """Tell whether what was read is still the run's beginning, under the same keys."""
        return (identity, keys) == (self.identity, self.keys)

    @property
    def progress(self) -> Hashable:
        """What a later state is compared with: equal means that nothing more was read."""
        return self.rows, self.share, self.skipped

    def take(self, batch: RowBatch) -> None:
        """Keep what was read until it is given out."""
        if batch.joint and self.rows:
            self.joints.append(self.rows)
        self.ready += batch.rows
        self.rows += len(batch.rows)
        self.caught_up, self.later = batch.caught_up, batch.later
        self.share, self.skipped = batch.share, batch.skipped

    def give(self, most: int) -> tuple[list[Row], tuple[int, ...]]:
        """Return the next rows, and at which of them another attempt begins."""
        begin = self.rows - len(self.ready)
        rows, self.ready = self.ready[:most], self.ready[most:]
        return rows, tuple(at - begin for at in self.joints if 0 <= at - begin < len(rows))


def with_state(value: TrackerValue, now: float) -> TrackerValue:
    """Return the value as it is at ``now``.

    No word of an end is no crash (it may only not be written yet): a run that has written
    nothing for ``SILENT_AFTER`` is "silent", and what became of it is for others to say. A
    server that watches the run says so itself.
    """
    if value.file_mtime is None:
        return value
    written_at = max(value.file_mtime, value.last_record_at or 0.0)
    if now - written_at <= SILENT_AFTER:
        return value
    return value.model_copy(update={"state": "silent"})


def _file_names(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean(path.rpartition("/")[2]) for path in files if not path.endswith("-wal"))


def _text(raw: str | None) -> str | None:
    return scrub(clean(raw)) or None
