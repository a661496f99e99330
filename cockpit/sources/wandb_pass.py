"""The background pass: every logged row of a run, read once in order, then only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.model.observed import Row
from cockpit.sources.wandb_columns import Columns
from cockpit.sources.wandb_decode import CONFIG, HISTORY, BadRecordError, config_update, kind_of
from cockpit.sources.wandb_fragment import Fragment
from cockpit.sources.wandb_log import MAGIC, LogFile, Span
from cockpit.sources.wandb_metrics import MetricKeys
from cockpit.sources.wandb_rows import StepRate

CHUNK_ROWS = 5000
"""Rows in one chunk at most."""
CHUNK_BYTES = 512 * 1024
"""Bytes of the log in one chunk: a few hundredths of a second at most."""


class Rows(NamedTuple):
    """A chunk of a run's logged rows, in order.

    ``caught_up``: nothing more is in the files for now. ``restarted``: the files (or the keys
    that are read from them) changed, and ``rows`` begin at the run's first row again.
    ``share``: how much of the bytes, 0 to 1, all rows up to these cover.
    """

    rows: tuple[Row, ...]
    caught_up: bool
    restarted: bool
    share: float


class _Cursor:
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

    def chunk(self) -> list[Row]:
        """Read on; an empty list can also mean that there were records but no rows."""
        if not self._waiting and self.fragment.ready:
            with LogFile(self.fragment.path) as log:
                piece = log.read(self.offset, CHUNK_BYTES)
                at_end = self.offset + CHUNK_BYTES >= log.size
            if at_end or piece.offset == self.offset:
                self._waiting_at = self.fragment.size
            self.offset = piece.offset
            self.skipped += piece.skipped
            self._waiting = self._rows(piece.spans)
        chunk, self._waiting = self._waiting[:CHUNK_ROWS], self._waiting[CHUNK_ROWS:]
        return chunk

    def _rows(self, spans: Sequence[Span]) -> list[Row]:
        reader = self.fragment.reader(self._keys)
        rows: list[Row] = []
        for span in spans:
            kind, message = kind_of(span)
            try:
                if kind == HISTORY:
                    self.fragment.layout.notice(message)
                    rows.append(reader.read(message))
                elif kind == CONFIG:
                    self.config.update(config_update(message))
            except BadRecordError:
                self.skipped += 1
        return rows if self._keys.throughput else list(self._rate.fill(rows))


class Pass:
    """Reads all fragments of a run in the order of their start, keeping the exact columns."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.caught_up_once = False
        self._cursors: list[_Cursor] = []
        self._keys = MetricKeys()
        self._delivered = False

    @property
    def share(self) -> float:
        """How much of the files has been read, 0 to 1 (0 before the pass began)."""
        total = sum(cursor.fragment.size for cursor in self._cursors)
        return min(1.0, self.read / total) if total else 0.0

    @property
    def progress(self) -> tuple[bool, int]:
        """What a later state is compared with: equal means that nothing more was read."""
        return self.caught_up_once, self.read

    @property
    def skipped(self) -> int:
        """Damaged blocks that were passed over."""
        return sum(cursor.skipped for cursor in self._cursors)

    @property
    def read(self) -> int:
        """Bytes that are done with."""
        return sum(cursor.read for cursor in self._cursors)

    def config_of(self, fragment: Fragment) -> dict[str, object]:
        """Return configuration that a launch set after its start, as far as it was read."""
        return next((one.config for one in self._cursors if one.fragment is fragment), {})

    def next(self, fragments: Sequence[Fragment], keys: MetricKeys) -> Rows:
        """Return the next chunk; ``fragments`` are the run's files, oldest first."""
        restarted = self._align(fragments, keys)
        rows: list[Row] = []
        behind = next((cursor for cursor in self._cursors if not cursor.caught_up), None)
        if behind is not None:
            rows = behind.chunk()
            self.columns.add(rows)
            self._delivered = self._delivered or bool(rows)
        caught_up = all(cursor.caught_up for cursor in self._cursors)
        self.caught_up_once = self.caught_up_once or caught_up
        share = 1.0 if caught_up else self.share
        return Rows(tuple(rows), caught_up, restarted, share)

    def _align(self, fragments: Sequence[Fragment], keys: MetricKeys) -> bool:
        """Begin anew when what was read so far is no longer the run's beginning."""
        known = [cursor.fragment for cursor in self._cursors]
        same = keys == self._keys and known == list(fragments[: len(known)])
        restarted = not same and self._delivered
        if not same:
            self._cursors.clear()
            self.columns = Columns()
            self._keys = keys
            self._delivered = self.caught_up_once = False
        for fragment in fragments[len(self._cursors) :]:
            self._cursors.append(_Cursor(fragment, keys))
        return restarted
