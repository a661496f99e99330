"""The whole loss curve in bounded memory: extremes, mean and non-finite count per column.

Columns are equally wide in steps. When a run outgrows them, neighbours merge and the width
doubles, so that any length fits; the extremes of a single row survive every merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cockpit.model.observed import Column, Row

MOST_COLUMNS = 1024
"""Columns at most; at least half as many once the run has that many steps."""

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
        self.first = min(self.first, step)
        self.last = max(self.last, step)
        if not math.isfinite(value):
            self.nonfinite += 1
            self.bad = self.bad or (step, value)
            return
        self.total += value
        self.count += 1
        if self.low is None or value < self.low[1]:
            self.low = (step, value)
        if self.high is None or value > self.high[1]:
            self.high = (step, value)

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

    def points(self) -> list[Point]:
        """Return the logged points that say most about this column, one to three."""
        return _distinct(self.low, self.high, self.bad)


class Columns:
    """The loss over steps, of every row that was added (in any order)."""

    def __init__(self, most: int = MOST_COLUMNS) -> None:
        self._cells: dict[int, _Cell] = {}
        self._most = most
        self._width = 1
        self._step = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in. A loss without a step counts at the last step before it."""
        for row in rows:
            if row.step is not None:
                self._step = row.step
            if row.loss is not None:
                self._add(self._step, row.loss)

    def _add(self, step: int, loss: float) -> None:
        index = max(0, step) // self._width
        cell = self._cells.get(index)
        if cell is None:
            cell = self._cells[index] = _Cell(step)
        cell.add(step, loss)
        while len(self._cells) > self._most:
            self._widen()

    def _widen(self) -> None:
        self._width *= 2
        merged: dict[int, _Cell] = {}
        for index, cell in self._cells.items():
            other = merged.setdefault(index // 2, cell)
            if other is not cell:
                other.merge(cell)
        self._cells = merged

    def columns(self) -> tuple[Column, ...]:
        """Return the columns in the order of their steps."""
        return tuple(self._cells[index].column() for index in sorted(self._cells))

    def points(self, most: int) -> tuple[Point, ...]:
        """Return at most ``most`` logged points, ascending by step.

        Every group of columns gives its lowest and its highest point, or a non-finite one in
        the lowest one's place: nothing is invented, and no extreme is averaged away.
        """
        order = [self._cells[index] for index in sorted(self._cells)]
        if len(order) <= most:  # each column gives at least one point
            every = [point for cell in order for point in cell.points()]
            if len(every) <= most:
                return tuple(sorted(every, key=_step))
        groups = max(1, most // 2)
        chosen: list[Point] = []
        for index in range(groups):
            low, high = index * len(order) // groups, (index + 1) * len(order) // groups
            chosen.extend(_extremes(order[low:high]))
        return tuple(chosen)


def _value(point: Point) -> float:
    return point[1]


def _extremes(cells: Sequence[_Cell]) -> list[Point]:
    if not cells:
        return []
    low = min((cell.low for cell in cells if cell.low), key=_value, default=None)
    high = max((cell.high for cell in cells if cell.high), key=_value, default=None)
    bad = next((cell.bad for cell in cells if cell.bad), None)
    return _distinct(bad or low, high)


def _distinct(*points: Point | None) -> list[Point]:
    """Return the points that there are, each once, ascending by step."""
    return sorted(dict.fromkeys(point for point in points if point is not None), key=_step)


def _step(point: Point) -> int:
    return point[0]
