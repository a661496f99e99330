"""One ``.wandb`` file of a run: what it tells at once, whatever its size, and how far it was read.

Its head, its newest rows and a sample each read a bounded part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import ClockReading as Look
from cockpit.sources.metric_keys import MetricKeys, Stamps, offset_of
from cockpit.sources.wandb.alike import AlikeRows, passed
from cockpit.sources.wandb.decode import (
    CONFIG,
    ENVIRONMENT,
    EXIT,
    HEADER,
    HISTORY,
    RUN,
    BadMessageError,
    KeyLayout,
    RowReader,
    RunInfo,
    StepRate,
    config_update,
    environment,
    exit_code,
    kind_of,
    producer,
    rated,
    record_time,
    run_info,
)
from cockpit.sources.wandb.file import BLOCK, FORWARDS, MAGIC, LaunchFile, LogChunk, Span, WandbLog
from cockpit.sources.wandb.listing import id_in_name

HEAD_BYTES = 256 * 1024
"""Where the run and environment records are looked for (one that begins there is read whole)."""
_HEAD_STEP = BLOCK // 2
RECENT_ROWS = 64
"""Rows of the tail that are kept for rates."""
LEARNED_BACK = 8 << 20
"""Bytes before the end in which the name of the loss is looked for."""

_HEAD_ROWS = 16
_FIRST_BLOCKS, _GROWTH, _MOST_BLOCKS = 1, 4, 64
_ENOUGH_ROWS = 8
_BUDGETS = (BLOCK // 4, BLOCK, 8 * BLOCK)


class Head(NamedTuple):
    """What the first records say of the run."""

    run: RunInfo | None = None
    producer: str | None = None
    git_commit: str | None = None
    slurm_job_id: str | None = None
    whole: bool = False
    """Whether all records before the rows were there: more of the file says nothing else."""


class Latest(NamedTuple):
    """The newest of everything, up to ``offset`` in a file that had ``size`` bytes.

    Each value in ``known`` is from the newest row that has it, the step and its time from one that
    is no evaluation's. ``record_at`` is the time of the last record that carries one;
    ``rows`` are the last ``RECENT_ROWS``, oldest first.
    """

    size: int = 0
    offset: int = 0
    rows: tuple[Row, ...] = ()
    known: Row = Row(None, None)
    record_at: float | None = None
    exit_code: int | None = None
    skipped: int = 0
    stamps: Stamps = Stamps()


def messages(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the messages of the history rows among records."""
    for span in spans:
        kind, message = kind_of(span)
        if kind == HISTORY:
            yield message


def read_rows(spans: Iterable[Span], reader: RowReader) -> Iterator[Row]:
    """Yield the rows among records, leaving out what is damaged."""
    for message in messages(spans):
        try:
            yield reader.read(message)
        except BadMessageError:
            continue


def head(log: WandbLog) -> Head:
    """Return the run's identity from the first records of a file."""
    found = Head()
    offset = len(MAGIC)
    while offset < HEAD_BYTES:
        piece = log.read(offset, _HEAD_STEP)
        rows = 0
        for span in piece.spans:
            kind, message = kind_of(span)
            rows += kind == HISTORY
            try:
                found = _head_with(found, kind, message)
            except BadMessageError:
                continue
        if piece.offset == offset or rows > _HEAD_ROWS:
            whole = rows > _HEAD_ROWS and offset + _HEAD_STEP <= log.size
            return found._replace(whole=whole)
        offset = piece.offset
    return found


def _head_with(found: Head, kind: int, message: Span) -> Head:
    if kind == HEADER:
        return found._replace(producer=producer(message))
    if kind == RUN:
        run = run_info(message)
        return found._replace(
            run=run,
            producer=found.producer or run.client,
            git_commit=run.git_commit or found.git_commit,
        )
    if kind == ENVIRONMENT:
        seen = environment(message)
        return found._replace(
            git_commit=found.git_commit or seen.git_commit,
            slurm_job_id=seen.slurm.get("job_id") or found.slurm_job_id,
        )
    if kind == CONFIG and found.run is not None:
        config = {**found.run.config, **config_update(message)}
        return found._replace(run=found.run._replace(config=config))
    return found


def learn(log: WandbLog, layout: KeyLayout) -> None:
    """Learn how the file spells its keys, from rows at its start, along it and at its end.

    Where none of them has a loss, it goes on looking backwards.
    """
    blocks = max(1, -(-log.size // BLOCK))
    for index in range(min(log.places, blocks)):
        place = index * blocks // log.places
        budgets = (budget for budget in _BUDGETS if budget <= log.head)
        looks = (messages(log.block(place, budget).spans) for budget in budgets)
        for message in next(filter(None, map(list, looks)), []):  # it may begin a little later
            layout.notice(message)
    for piece in log.backwards(_FIRST_BLOCKS, _GROWTH, _MOST_BLOCKS):
        _notice(layout, piece)
        back = log.size - piece.start
        enough = layout.has_loss and back > log.beside // 4
        if enough or back > min(LEARNED_BACK, log.farthest):
            return


def learn_newest(log: WandbLog, layout: KeyLayout) -> None:
    """Learn from the file's last rows: a key may have come up since."""
    newest = next(log.backwards(_FIRST_BLOCKS, 1, _FIRST_BLOCKS), None)
    if newest is not None:
        _notice(layout, newest)


def _notice(layout: KeyLayout, piece: LogChunk) -> None:
    for message in messages(piece.spans):
        layout.notice(message)


def latest(log: WandbLog, reader: RowReader, former: Latest | None = None) -> Latest:
    """Return the newest of everything.

    With ``former`` (of the same file, read with the same keys) only what is new is read.
    """
    if former is not None and log.size - former.offset <= FORWARDS:
        pieces = iter(list(_forwards(log, former.offset))[::-1])
    else:
        pieces = log.backwards(_FIRST_BLOCKS, _GROWTH, _MOST_BLOCKS)
    newest = _Newest(reader, log.beside)
    offset = skipped = 0
    for piece in pieces:
        offset = max(offset, piece.offset)
        skipped += piece.skipped
        newest.take(piece.spans)
        back = log.size - piece.start
        if back > log.farthest or newest.complete(back):
            break
    return newest.result(former or Latest(), log.size, offset, skipped)


def _forwards(log: WandbLog, offset: int) -> Iterator[LogChunk]:
    piece = log.read(offset, _MOST_BLOCKS * BLOCK)
    while piece.offset > offset:
        yield piece
        offset = piece.offset
        piece = log.read(offset, _MOST_BLOCKS * BLOCK)


class _Newest:
    """Collects the newest of everything, from the newest record to older ones."""

    def __init__(self, reader: RowReader, beside: int) -> None:
        self._reader = reader
        self._beside = beside
        self._rows: list[Row] = []
        self._known = Row(None, None)
        self._record_at: float | None = None
        self._stamps = Stamps()
        self._exit: int | None = None

    def take(self, spans: Sequence[Span]) -> None:
        """Take older records than those before, each call's in the file's order."""
        for span in reversed(spans):
            kind, message = kind_of(span)
            try:
                if kind == EXIT:
                    self._exit = exit_code(message)
                elif kind != HISTORY and (not self._rows or self._stamps.before is None):
                    self._take_time(record_time(kind, message))
                elif kind == HISTORY and (len(self._rows) < RECENT_ROWS or not self.complete(0)):
                    self._take_row(self._reader.read(message), message)
            except BadMessageError:
                continue

    def _take_time(self, at: float | None) -> None:
        """Take the time of a record of the client's own, newer or older than the last row."""
        if at is None:
            return
        if self._record_at is None:
            self._record_at = at
        stamps = self._stamps
        newest = at if stamps.newest is None else stamps.newest
        where = {"before": at} if self._rows else {"after": at}
        self._stamps = stamps._replace(newest=newest, **where)

    def _take_row(self, row: Row, message: Span) -> None:
        if self._stamps.row is None:
            self._stamps = self._stamps._replace(row=row.at)
        if len(self._rows) < RECENT_ROWS:
            self._rows.append(row)
        if self._record_at is None:
            self._record_at = row.at
        if None in self._known:
            apart = self._reader.evaluates(row, message)
            self._known = older(self._known, without_step(row) if apart else row)

    def complete(self, back: int) -> bool:
        """Tell whether looking farther than ``back`` bytes before the end is of no use."""
        primary, secondary = self._reader.missing(self._known)
        enough = len(self._rows) >= _ENOUGH_ROWS and not primary
        return enough and (not secondary or back > self._beside)

    def result(self, former: Latest, size: int, offset: int, skipped: int) -> Latest:
        """Return what was found, completed by what was known before."""
        return Latest(
            size=size,
            offset=max(offset, former.offset),
            rows=(former.rows + tuple(reversed(self._rows)))[-RECENT_ROWS:],
            record_at=former.record_at if self._record_at is None else self._record_at,
            exit_code=former.exit_code if self._exit is None else self._exit,
            skipped=former.skipped + skipped,
            stamps=self._joined_stamps(former.stamps),
            known=older(self._known, former.known),
        )

    def _joined_stamps(self, former: Stamps) -> Stamps:
        """Return the stamps, those of a former look where nothing newer was written since."""
        seen = self._stamps
        if seen.row is None:
            after = former.after if former.after is not None else seen.after
            newest = seen.newest if seen.newest is not None else former.newest
            return former._replace(after=after, newest=newest)
        return seen if seen.before is not None else seen._replace(before=former.newest)


def newest_rows(log: WandbLog, reader: RowReader, most: int) -> tuple[list[Row], int]:
    """Return the last ``most`` rows of a file in its order, and about where they begin."""
    parts: list[list[Row]] = []
    start = log.size
    left = most
    for piece in log.backwards(_MOST_BLOCKS // 4, 1, _MOST_BLOCKS):
        rows = list(read_rows(piece.spans, reader))
        parts.insert(0, rows[-left:])
        dropped = max(0, len(rows) - left) / max(1, len(rows))
        start = piece.start + int(dropped * (start - piece.start))
        left -= len(rows)
        if left <= 0 or log.size - start > log.farthest:
            break
    return [row for part in parts for row in part], 0 if start <= len(MAGIC) else start


def older(newer: Row, row: Row) -> Row:
    """Return ``newer`` with what it lacks taken from an older ``row``."""
    return Row._make(b if a is None else a for a, b in zip(newer, row, strict=True))


def without_step(row: Row) -> Row:
    """Return what an evaluation's row tells: neither a step of training nor its time."""
    return row._replace(step=None, at=None)


def sample(log: WandbLog, reader: RowReader, points: int) -> list[Row]:
    """Return about ``points`` rows with a loss, evenly spread over the file, in its order."""
    blocks = max(1, -(-log.size // BLOCK))
    if blocks >= points:
        places = [index * blocks // points for index in range(points)]
        found = [_loss_rows(log, reader, number, 1) for number in places]
    else:
        each = -(-points // blocks)
        found = [_loss_rows(log, reader, number, each) for number in range(blocks)]
    return [row for rows in found for row in rows]


def _loss_rows(log: WandbLog, reader: RowReader, number: int, most: int) -> list[Row]:
    """Return up to ``most`` rows with a loss that begin in a block, evenly spread over it."""
    for budget in _BUDGETS if most == 1 else _BUDGETS[1:]:
        rows: list[Row] = []
        for row in read_rows(log.block(number, budget).spans, reader):
            if row.loss is not None:
                rows.append(row)
                if most == 1:
                    return rows
        if rows:
            count = min(most, len(rows))
            return [rows[index * len(rows) // count] for index in range(count)]
    return []


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


def read_on(cursor: Cursor) -> list[Row]:
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
