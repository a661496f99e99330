"""The background pass: every logged row of a run, read once in order, then only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.model.observed import Row
from cockpit.sources.wandb.cursor import Cursor, pieces
from cockpit.sources.wandb.fragment import Fragment
from cockpit.sources.wandb.loss_columns import LossColumns
from cockpit.sources.wandb.metrics import MetricKeys


class RowChunk(NamedTuple):
    """A chunk of a run's logged rows, in order.

    ``caught_up``: nothing more is there for now. ``restarted``: the files (or the keys that are
    read of them) changed, and ``rows`` begin at the first row again. ``share``: how much of the
    bytes (of a server's run: of the steps), 0 to 1, all rows up to these cover. ``later``: there
    is more, but none before the next look. ``unread``: why none are told now (``caught_up`` no).
    """

    rows: tuple[Row, ...]
    caught_up: bool
    restarted: bool
    share: float
    later: bool = False
    unread: str = ""


class Pass:
    """Reads all fragments of a run in the order of their start, keeping the exact columns."""

    def __init__(self) -> None:
        self.columns = LossColumns()
        self.caught_up_once = False
        self._cursors: list[Cursor] = []
        self._keys = MetricKeys()
        self._delivered = False
        self._again = False

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

    def next(self, fragments: Sequence[Fragment], keys: MetricKeys) -> RowChunk:
        """Return the next chunk; ``fragments`` are the run's files, oldest first."""
        restarted = self._align(fragments, keys)
        rows: list[Row] = []
        behind = next((cursor for cursor in self._cursors if not cursor.caught_up), None)
        if behind is not None:
            rows = pieces(behind)
            self.columns.add(rows)
            self._delivered = self._delivered or bool(rows)
        later = behind is not None and behind.lacks > 0 and not rows
        caught_up = all(cursor.caught_up for cursor in self._cursors)
        self.caught_up_once = self.caught_up_once or caught_up
        share = 1.0 if caught_up else self.share
        return RowChunk(tuple(rows), caught_up, restarted, share, later and not caught_up)

    def read_out(self, fragments: Sequence[Fragment], keys: MetricKeys) -> bool:
        """Return whether ``next`` would give nothing: every row of these files was given out."""
        known = [cursor.fragment for cursor in self._cursors]
        same = not self._again and keys == self._keys and known == list(fragments)
        return same and all(cursor.caught_up for cursor in self._cursors)

    def unread(self, fragment: Fragment) -> tuple[int, int] | None:
        """Return from where on a file is not read yet, and up to where it must be here to go on.

        ``None`` where it is not its turn: files are read in order.
        """
        behind = next((one for one in self._cursors if not one.caught_up), None)
        if behind is None:
            last = self._cursors[-1] if self._cursors else None
            return (last.offset, 0) if last is not None and last.fragment is fragment else None
        return (behind.offset, behind.lacks) if behind.fragment is fragment else None

    def done(self, fragment: Fragment) -> int:
        """Return up to where a file was given out, once all of it was; 0 before."""
        read = (one.offset for one in self._cursors if one.fragment is fragment and one.caught_up)
        return next(read, 0)

    def rewind(self) -> None:
        """Read everything again from the first row on."""
        self._cursors.clear()
        self.columns = LossColumns()
        self._delivered, self.caught_up_once = False, False
        self._again = True

    def _align(self, fragments: Sequence[Fragment], keys: MetricKeys) -> bool:
        """Begin anew when what was read so far is no longer the run's beginning."""
        known = [cursor.fragment for cursor in self._cursors]
        same = keys == self._keys and known == list(fragments[: len(known)])
        restarted = self._again or (not same and self._delivered)
        self._again = False
        if not same:
            self._cursors.clear()
            self.columns = LossColumns()
            self._keys = keys
            self._delivered = self.caught_up_once = False
        for fragment in fragments[len(self._cursors) :]:
            self._cursors.append(Cursor(fragment, keys))
        return restarted
