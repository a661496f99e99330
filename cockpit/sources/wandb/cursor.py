"""How far the background pass has read one ``.wandb`` file, and the next rows from there."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.observed import Row
from cockpit.sources.protobuf import BadMessageError
from cockpit.sources.wandb.alike import AlikeRows, passed
from cockpit.sources.wandb.decode import CONFIG, HISTORY, config_update, kind_of
from cockpit.sources.wandb.file import MAGIC, Span
from cockpit.sources.wandb.fragment import Fragment
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.sources.wandb.rows import StepRate, rated

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
        self.lacks = 0
        """Up to which offset bytes must be brought before more can be read; 0 if none."""
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
                self.lacks = max((stop for _, stop in log.missed), default=0)
            if not self.lacks and (at_end or piece.offset == self.offset):
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


def pieces(cursor: Cursor) -> list[Row]:
    """Read on until it is worth it; what was read before a piece that cannot be is not lost."""
    rows: list[Row] = []
    for _ in range(PIECES):
        try:
            rows += cursor.chunk(CHUNK_ROWS - len(rows))
        except OSError:
            if not rows:
                raise
            break  # the next call says so, if it is so still
        if cursor.caught_up or cursor.lacks or len(rows) >= ENOUGH:
            break
    return rows
