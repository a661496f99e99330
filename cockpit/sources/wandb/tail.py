"""What a ``.wandb`` file of any size tells at once: its head, its newest rows, a sample.

Each of the three reads a bounded part of the file, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cockpit.model.observed import Row
from cockpit.sources.metric_keys import Stamps
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
    config_update,
    environment,
    exit_code,
    kind_of,
    producer,
    record_time,
    run_info,
)
from cockpit.sources.wandb.file import BLOCK, FORWARDS, MAGIC, LogChunk, Span, WandbLog

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
