"""One ``.wandb`` file of a run: what has been learned of it, and how far its rows were read."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import ClockReading as Look
from cockpit.sources.metric_keys import MetricKeys, offset_of
from cockpit.sources.wandb.alike import AlikeRows, passed
from cockpit.sources.wandb.decode import (
    CONFIG,
    HISTORY,
    BadMessageError,
    KeyLayout,
    RowReader,
    StepRate,
    config_update,
    kind_of,
    rated,
)
from cockpit.sources.wandb.file import MAGIC, LaunchFile, Span
from cockpit.sources.wandb.listing import id_in_name
from cockpit.sources.wandb.tail import (
    HEAD_BYTES,
    Head,
    Latest,
    head,
    latest,
    learn,
    learn_newest,
    sample,
)

STALE_SAMPLE = 0.1
"""Share by which a file may grow before it is sampled again: a sample reads all along it."""


class Fragment:
    """What one launch of the run has written; grows with its file.

    ``ready`` is False until the file's header is there. A file that was replaced or cut is
    another fragment: see ``replaced``.
    """

    def __init__(self, file: LaunchFile, configured: MetricNames) -> None:
        self.file = file
        self.path = file.path
        self.head = Head()
        self.layout = KeyLayout(configured)
        self.ready = False
        self.size = 0
        self.mtime = 0.0
        self.offset = 0.0
        """The trainer's clock minus ours, as far as it is known (s), its host's included."""
        self._clock: Look | None = None
        self._identity: tuple[int, int] | None = None
        self._latest: tuple[MetricKeys, Latest] | None = None
        self._sample: tuple[MetricKeys, int, int, list[Row]] | None = None

    @property
    def name(self) -> str:
        """The directory's name, which tells when the launch was."""
        return self.file.name

    @property
    def id(self) -> str:
        """The run's id: the run record's, else the file name's."""
        run = self.head.run
        return (run.id if run is not None else None) or id_in_name(self.path)

    @property
    def started_at(self) -> float:
        """When the launch began: the run record's start, else when the file last changed."""
        run = self.head.run
        recorded = run.started_at if run is not None else None
        return self.mtime if recorded is None else recorded - self.offset

    @property
    def version(self) -> tuple[str, int, float]:
        """What a later look is compared with: equal means that nothing is new."""
        return self.path, self.size, self.mtime

    def replaced(self) -> bool:
        """Tell whether the path now holds another file, or less of the same, or nothing."""
        try:
            now = self.file.stat()
        except FileNotFoundError:
            return True
        known = self._identity in (None, now.identity)
        return not known or now.size < self.size

    def refresh(self) -> None:
        """Look at the file again: one ``stat`` when nothing is new.

        Raises ``OSError``, or ``BadFileError`` when the file is something else.
        """
        now = self.file.stat()
        self._identity = now.identity
        self.mtime = now.mtime
        if now.size == self.size:
            return
        with self.file.open() as log:
            self.ready = log.started()
            if self.ready and not self.head.whole and self.size < HEAD_BYTES:
                self.head = head(log)
            if self.ready:
                (learn_newest if self.layout.rows else learn)(log, self.layout)
        self.size = now.size

    def latest(self, keys: MetricKeys) -> Latest:
        """Return the newest of everything in this file."""
        if not self.ready:
            return Latest()
        former = self._latest[1] if self._latest and self._latest[0] == keys else None
        if former is None or former.size != self.size:
            with self.file.open() as log:
                former = latest(log, self.reader(keys), former)
            self._latest = (keys, former)
        return former

    def judge_clock(self, keys: MetricKeys) -> None:
        """Find out how far the trainer's clock is off, from what is new in the file."""
        stamps = self.latest(keys).stamps
        written = self.mtime + self.file.skew
        if self._clock is None or self._clock[:2] != (stamps, written):
            off = offset_of(stamps, written, self._clock)
            self._clock = Look(stamps, written, off)
            self.offset = off + self.file.skew

    def on_our_clock(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with their times on our clock: none lies after the file's last write."""
        off, last = self.offset, self.mtime
        if not off:
            return list(rows)
        return [row if row.at is None else row._replace(at=min(row.at - off, last)) for row in rows]

    def sample(self, keys: MetricKeys, points: int) -> list[Row]:
        """Return about ``points`` rows with a loss, evenly spread over the file.

        A file that has grown by less than ``STALE_SAMPLE`` since is not sampled again. One that
        lies elsewhere is not sampled: each place along it would cost a trip.
        """
        if not self.ready or keys.loss is None or self.file.far:
            return []
        former = self._sample
        if (
            former is None
            or former[:2] != (keys, points)
            or not former[2] <= self.size <= former[2] * (1 + STALE_SAMPLE)
        ):
            with self.file.open() as log:
                rows = sample(log, self.reader(keys), points)
            former = self._sample = (keys, points, self.size, rows)
        return former[3]

    def reader(self, keys: MetricKeys) -> RowReader:
        """Return a reader of this file's rows."""
        return RowReader(keys, self.layout)


CHUNK_ROWS = 5000
"""Rows in one chunk at most."""
CHUNK_BYTES = 512 * 1024
"""Bytes of the log that are read at once: a few hundredths of a second at most."""
ENOUGH = 1500
"""Rows that make a chunk worth its way to whoever asked: long rows are read ``PIECES`` times."""
PIECES = 4


class Cursor:
    """How far one fragment has been read."""

    def __init__(self, fragment: Fragment, keys: MetricKeys) -> None:
        self.fragment = fragment
        self.offset = len(MAGIC)
        self.skipped = 0
        self.config: dict[str, object] = {}
        self._keys = keys
        self._rate = StepRate()
        self._waiting_at = 0
        self._waiting: list[Row] = []
        self._alike: AlikeRows | None = None

    @property
    def caught_up(self) -> bool:
        """True when nothing more can be read from what is there."""
        size = self.fragment.size
        at_end = self.offset >= size or self._waiting_at == size
        return not self._waiting and (at_end or not self.fragment.ready)

    @property
    def read(self) -> int:
        """Bytes that are done with."""
        return self.fragment.size if self.caught_up else self.offset

    def chunk(self, most: int) -> list[Row]:
        """Read on, ``most`` rows; an empty list can mean that there were records but no rows."""
        if not self._waiting and self.fragment.ready:
            with self.fragment.file.open() as log:
                piece = log.read(self.offset, CHUNK_BYTES, passed)
                at_end = self.offset + CHUNK_BYTES >= log.size
            if at_end or piece.offset == self.offset:
                self._waiting_at = self.fragment.size
            self.offset = piece.offset
            self.skipped += piece.skipped
            self._waiting = self._rows(piece.spans)
        chunk, self._waiting = self._waiting[:most], self._waiting[most:]
        return chunk

    def _rows(self, spans: Sequence[Span]) -> list[Row]:
        reader, layout = self.fragment.reader(self._keys), self.fragment.layout

        def by_itself(span: Span) -> Row | None:
            kind, message = kind_of(span)
            try:
                if kind == HISTORY:
                    layout.notice(message)
                    return reader.read(message)
                if kind == CONFIG:
                    self.config.update(config_update(message))
            except BadMessageError:
                self.skipped += 1
            return None

        if self._alike is None or not self._alike.fits(reader, layout):
            self._alike = AlikeRows(reader, layout)
        rows = self._alike.read(spans, by_itself)
        return rated(self.fragment.on_our_clock(rows), self._keys, self._rate)


def read_rows(cursor: Cursor) -> list[Row]:
    """Read on until it is worth it; what was read before a piece that cannot be is not lost."""
    rows: list[Row] = []
    for _ in range(PIECES):
        try:
            rows += cursor.chunk(CHUNK_ROWS - len(rows))
        except OSError:
            if not rows:
                raise
            break  # the next call says so, if it is so still
        if cursor.caught_up or len(rows) >= ENOUGH:
            break
    return rows
