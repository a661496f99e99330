"""The background pass: every logged row of a run, read once in order, then only what is new.

From it comes the whole loss curve in bounded memory: extremes, mean and non-finite count per
column. Columns are equally wide in steps. When a run outgrows them, neighbours merge and the
width doubles, so that any length fits; the extremes of a single row survive every merge.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeGuard

from cockpit.model.observed import Column, Row
from cockpit.sources.wandb.cursor import Cursor, pieces
from cockpit.sources.wandb.fragment import Fragment
from cockpit.sources.wandb.metrics import MetricKeys

MOST_COLUMNS = 1024
"""Columns at most; at least half as many once the run has that many steps."""

WIDE = 16
"""Steps of a column from which on its rows are taken together."""

Point = tuple[int, float]


class _Cell:
    """One column while it grows. ``bad`` is its first non-finite point."""

    __slots__ = ("_shown", "bad", "count", "first", "high", "last", "low", "nonfinite", "total")

    def __init__(self, step: int) -> None:
        self.first = self.last = step
        self.low: Point | None = None
        self.high: Point | None = None
        self.bad: Point | None = None
        self.total = 0.0
        self.count = 0
        self.nonfinite = 0
        self._shown: Column | None = None

    def add(self, step: int, value: float) -> None:
        """Take one row in."""
        self._shown = None
        if step > self.last:
            self.last = step
        elif step < self.first:
            self.first = step
        if not math.isfinite(value):
            self.nonfinite += 1
            self.bad = self.bad or (step, value)
            return
        self.total += value
        self.count += 1
        low, high = self.low, self.high
        if low is None or high is None:
            self.low = self.high = (step, value)  # one for both: most columns hold one row
        elif value < low[1]:
            self.low = (step, value)
        elif value > high[1]:
            self.high = (step, value)

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Take rows in as ``add`` does each: their steps ascend, their values are finite."""
        self._shown = None
        self.first, self.last = min(self.first, steps[0]), max(self.last, steps[-1])
        total = self.total
        for value in values:  # one after the other: the same sum, however the rows came
            total += value
        self.total, self.count = total, self.count + len(values)
        low, high = min(values), max(values)
        if self.low is None or low < self.low[1]:
            self.low = (steps[values.index(low)], low)
        if self.high is None or high > self.high[1]:
            self.high = (steps[values.index(high)], high)

    def merge(self, other: _Cell) -> None:
        """Take all of another column in."""
        self._shown = None
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.total += other.total
        self.count += other.count
        self.nonfinite += other.nonfinite
        self.bad = self.bad or other.bad
        lows = [point for point in (self.low, other.low) if point]
        highs = [point for point in (self.high, other.high) if point]
        self.low = min(lows, key=_value, default=None)
        self.high = max(highs, key=_value, default=None)

    def column(self) -> Column:
        """Return the column as it is shown; the same one as long as nothing was added."""
        if self._shown is None:
            low = self.low[1] if self.low else None
            high = self.high[1] if self.high else None
            mean = self.total / self.count if self.count else None
            if low is not None and high is not None and not math.isfinite(mean or 0.0):
                mean = low / 2 + high / 2  # the total is beyond what a float holds
            self._shown = Column(self.first, self.last, low, high, mean, self.nonfinite)
        return self._shown


def _growing(cell: _Cell | Column) -> _Cell:
    """Return a column that more can be taken into."""
    if isinstance(cell, _Cell):
        return cell
    grown = _Cell(cell.first)
    if cell.low is not None:
        grown.add(cell.first, cell.low)
    return grown


def _ends(cell: _Cell | Column) -> tuple[Point | None, Point | None, Point | None]:
    """Return a column's lowest, highest and first non-finite logged point."""
    if isinstance(cell, _Cell):
        return cell.low, cell.high, cell.bad
    only = None if cell.low is None else (cell.first, cell.low)
    return only, only, None


class LossColumns:
    """The loss over steps, of every row that was added (in any order)."""

    def __init__(self, most: int = MOST_COLUMNS) -> None:
        self._cells: dict[int, _Cell | Column] = {}
        """A column of one row, as most are in a run that is not long, is its own whole state."""
        self._most = most
        self._width = 1
        self._step = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in. A loss without a step counts at the last step before it."""
        if self._width < WIDE:
            self._add_each(rows)
            return
        rows = list(rows)
        steps, losses = [row[0] for row in rows], [row[2] for row in rows]
        if _ascend(steps) and _sound(losses):
            self._add_together(steps, losses)
        else:
            self._add_each(rows)

    def _add_together(self, steps: Sequence[int], losses: Sequence[float]) -> None:
        """Take rows in, those of a column at once: their steps ascend, their losses are finite."""
        at = 0
        while at < len(steps):
            index = steps[at] // self._width
            cell, stop = self._cells.get(index), at + 1
            if cell is not None:  # the first row of a column goes alone: it may join others there
                stop = bisect_left(steps, (index + 1) * self._width, at)
            grown = _Cell(steps[at]) if cell is None else _growing(cell)
            self._cells[index] = grown
            grown.extend(steps[at:stop], losses[at:stop])
            if cell is None:
                self._fit()
            at = stop
        self._step = steps[-1]

    def _add_each(self, rows: Iterable[Row]) -> None:
        cells, width, at = self._cells, self._width, self._step
        for row in rows:
            step, _, loss = row[:3]
            if step is not None:
                at = step
            if loss == 0.0:
                loss = row.true_loss
            if loss is None:
                continue
            # of width 1 the step itself: no second number is kept of each row
            index = (at if width == 1 else at // width) if at > 0 else 0
            cell = cells.get(index)
            if type(cell) is _Cell:
                cell.add(at, loss)  # most rows of a long run
                continue
            if cell is None and math.isfinite(loss):
                cells[index] = Column(at, at, loss, loss, loss, 0)
            else:
                cells[index] = grown = _Cell(at) if cell is None else _growing(cell)
                grown.add(at, loss)
            if cell is None:
                self._fit()
                cells, width = self._cells, self._width
        self._step = at

    def _fit(self) -> None:
        """Join neighbours until there are no more columns than may be."""
        while len(self._cells) > self._most:
            self._width *= 2
            merged: dict[int, _Cell | Column] = {}
            for at, one in self._cells.items():
                other = merged.setdefault(at // 2, one)
                if other is not one:
                    both = merged[at // 2] = _growing(other)
                    both.merge(_growing(one))
            self._cells = merged

    def columns(self) -> tuple[Column, ...]:
        """Return the columns in the order of their steps."""
        cells = (self._cells[index] for index in sorted(self._cells))
        return tuple(cell if isinstance(cell, Column) else cell.column() for cell in cells)

    def points(self, most: int) -> tuple[Point, ...]:
        """Return at most ``most`` logged points, ascending by step.

        Every group of columns gives its lowest and its highest point, or a non-finite one in
        the lowest one's place: nothing is invented, and no extreme is averaged away.
        """
        order = [self._cells[index] for index in sorted(self._cells)]
        if len(order) <= most:  # each column gives at least one point
            every = [point for cell in order for point in _distinct(*_ends(cell))]
            if len(every) <= most:
                return tuple(sorted(every, key=_step))
        groups = max(1, most // 2)
        chosen: list[Point] = []
        for index in range(groups):
            low, high = index * len(order) // groups, (index + 1) * len(order) // groups
            chosen.extend(_extremes(order[low:high]))
        return tuple(chosen)


def _ascend(steps: Sequence[int | None]) -> TypeGuard[Sequence[int]]:
    """Tell whether there are steps, all known, above 0 and none below the one before it."""
    known = [step for step in steps if step is not None]
    return 0 < len(known) == len(steps) and known[0] > 0 and known == sorted(known)


def _sound(losses: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Tell whether each is finite, and surely what was logged: 0 may stand for another."""
    known = [loss for loss in losses if loss is not None]
    return len(known) == len(losses) and math.isfinite(sum(known)) and 0.0 not in known


_step, _value = itemgetter(0), itemgetter(1)


def _extremes(cells: Sequence[_Cell | Column]) -> list[Point]:
    ends = [_ends(cell) for cell in cells]
    low = min((each[0] for each in ends if each[0]), key=_value, default=None)
    high = max((each[1] for each in ends if each[1]), key=_value, default=None)
    bad = next((each[2] for each in ends if each[2]), None)
    return _distinct(bad or low, high)


def _distinct(*points: Point | None) -> list[Point]:
    """Return the points that there are, each once, ascending by step."""
    return sorted(dict.fromkeys(point for point in points if point is not None), key=_step)


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
