"""Rows folded into curves of bounded size: the loss of a run, and any metric that is asked for.

Columns are equally wide in steps, and neighbours merge when there are too many: extremes, mean and
count of values that are no numbers are exact as far as rows were read, and sampled beyond.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from cockpit.model.base import STEPS
from cockpit.model.curve import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    THROUGHPUT,
    Curve,
    PackedColumns,
    Part,
    Point,
    Restart,
    Span,
)
from cockpit.model.observed import Column, Row
from cockpit.sources.metric_keys import MetricKeys, plain_name
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_COLUMNS = 1024
"""Columns at most; at least half as many once the run has that many steps."""

StepLoss = tuple[int, float]


class Cell:
    """One column while it grows. ``bad`` is its first non-finite point.

    ``begin`` and ``end`` are the first and last time of its rows, as far as times are added.
    """

    __slots__ = (
        "bad", "begin", "count", "end", "first", "high", "last", "low", "nonfinite", "total",
    )  # fmt: skip

    def __init__(self, step: int) -> None:
        self.first = self.last = step
        self.begin: float | None = None
        self.end: float | None = None
        self.low: StepLoss | None = None
        self.high: StepLoss | None = None
        self.bad: StepLoss | None = None
        self.total = 0.0
        self.count = 0
        self.nonfinite = 0

    def add(self, step: int, value: float) -> None:
        """Take one row in."""
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

    def add_time(self, at: float | None) -> None:
        """Take the time of a row in."""
        if at is not None:
            self.begin = at if self.begin is None else min(self.begin, at)
            self.end = at if self.end is None else max(self.end, at)

    def merge(self, other: Cell) -> None:
        """Take all of another column in."""
        self.add_time(other.begin)
        self.add_time(other.end)
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
        """Return the column as it is shown."""
        low, high = self.low, self.high
        if low is None or high is None:
            return Column(self.first, self.last, None, None, None, self.nonfinite)
        mean = self.total / self.count
        if not math.isfinite(mean):
            mean = low[1] / 2 + high[1] / 2  # the total is beyond what a float holds
        return Column(self.first, self.last, low[1], high[1], mean, self.nonfinite)


def halved(cells: Iterable[tuple[int, Cell]]) -> dict[int, Cell]:
    """Return columns twice as wide, by their indices."""
    merged: dict[int, Cell] = {}
    for at, cell in cells:
        kept = merged.setdefault(at // 2, cell)
        if kept is not cell:
            kept.merge(cell)
    return merged


def _growing(cell: Cell | StepLoss) -> Cell:
    """Return a column that more can be taken into."""
    if isinstance(cell, Cell):
        return cell
    grown = Cell(cell[0])
    grown.add(*cell)
    return grown


def _ends(cell: Cell | StepLoss) -> tuple[StepLoss | None, StepLoss | None, StepLoss | None]:
    """Return a column's lowest, highest and first non-finite logged point."""
    return (cell.low, cell.high, cell.bad) if isinstance(cell, Cell) else (cell, cell, None)


class _Singles:
    """The columns that hold one row each, as most do in a run that is not long: two numbers each.

    Only while a column is one step wide, so that a row's step tells its column.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.losses = array("d")

    def add(self, step: int, loss: float) -> float | None:
        """Take a row in; if there is one at its step, give that out instead."""
        steps = self.steps
        if not steps or step > steps[-1]:
            steps.append(step)
            self.losses.append(loss)
            return None
        if (former := self.pop(step)) is None:
            at = bisect_left(steps, step)
            steps.insert(at, step)
            self.losses.insert(at, loss)
        return former

    def pop(self, step: int) -> float | None:
        """Give out the loss at a step, if there is one."""
        at = bisect_left(self.steps, step)
        if at == len(self.steps) or self.steps[at] != step:
            return None
        del self.steps[at]
        return self.losses.pop(at)


class LossColumns:
    """The loss over steps, of every row that was added (in any order)."""

    def __init__(self, most: int = MOST_COLUMNS) -> None:
        self._cells: dict[int, Cell] = {}
        self._singles = _Singles()
        """The others, while they are one step wide."""
        self._most = most
        self._width = 1
        self._step = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows in. A loss without a step counts at the last step before it."""
        cells, width, at = self._cells, self._width, self._step
        for row in rows:
            step, _, loss = row[:3]
            if step is not None:
                at = step
            if loss == 0.0:
                loss = row.true_loss
            if loss is None:
                continue
            index = (at if width == 1 else at // width) if at > 0 else 0
            cell = cells.get(index)
            if cell is not None:
                cell.add(at, loss)  # most rows of a long run
            else:
                self._begin(index, at, loss)
                cells, width = self._cells, self._width
        self._step = at

    def _begin(self, index: int, step: int, loss: float) -> None:
        """Take in a row for which no column has grown yet."""
        alone = self._width == 1 and 0 <= step <= STEPS and math.isfinite(loss)
        if alone:
            former = self._singles.add(step, loss)
        else:
            former = self._singles.pop(index) if self._width == 1 else None
        if not alone or former is not None:
            grown = Cell(step) if former is None else _growing((index, former))
            grown.add(step, loss)
            self._cells[index] = grown
        if former is None:
            self._fit()

    def _fit(self) -> None:
        """Join neighbours until there are no more columns than may be."""
        while len(self._cells) + len(self._singles.steps) > self._most:
            self._width *= 2
            grown = ((at, _growing(one)) for at, one in self._ordered())
            self._cells, self._singles = halved(grown), _Singles()

    def _ordered(self) -> list[tuple[int, Cell | StepLoss]]:
        """Return the columns with their indices, in the order of their steps."""
        singles = self._singles
        every: list[tuple[int, Cell | StepLoss]] = [*self._cells.items()]
        every += zip(singles.steps, zip(singles.steps, singles.losses, strict=True), strict=True)
        return sorted(every, key=itemgetter(0))

    def columns(self) -> Sequence[Column]:
        """Return the columns in the order of their steps."""
        if not self._cells:
            return PackedColumns.of_rows(self._singles.steps[:], self._singles.losses[:])
        return PackedColumns(_growing(cell).column() for _, cell in self._ordered())

    def points(self, most: int) -> tuple[StepLoss, ...]:
        """Return at most ``most`` logged points, ascending by step.

        Every group of columns gives its lowest and its highest point, or a non-finite one in
        the lowest one's place: nothing is invented, and no extreme is averaged away.
        """
        singles = self._singles
        order: list[Cell | StepLoss] = (
            [cell for _, cell in self._ordered()]
            if self._cells
            else [*zip(singles.steps, singles.losses, strict=True)]
        )
        if len(order) <= most:  # each column gives at least one point
            every = [point for cell in order for point in _distinct(*_ends(cell))]
            if len(every) <= most:
                return tuple(sorted(every, key=_step))
        groups = max(1, most // 2)
        chosen: list[StepLoss] = []
        for index in range(groups):
            low, high = index * len(order) // groups, (index + 1) * len(order) // groups
            chosen.extend(_extremes(order[low:high]))
        return tuple(chosen)


_step, _value = itemgetter(0), itemgetter(1)


def _extremes(cells: Sequence[Cell | StepLoss]) -> list[StepLoss]:
    ends = [_ends(cell) for cell in cells]
    low = min((each[0] for each in ends if each[0]), key=_value, default=None)
    high = max((each[1] for each in ends if each[1]), key=_value, default=None)
    bad = next((each[2] for each in ends if each[2]), None)
    return _distinct(bad or low, high)


def _distinct(*points: StepLoss | None) -> list[StepLoss]:
    """Return the points that there are, each once, ascending by step."""
    return sorted(dict.fromkeys(point for point in points if point is not None), key=_step)


class RowChunk(NamedTuple):
    """A chunk of a run's logged rows, in order.

    ``caught_up``: nothing more is there for now. ``restarted``: the files (or the keys that are
    read of them) changed, and ``rows`` begin at the first row again. ``share``: how much of the
    bytes (of a server's run: of the steps), 0 to 1, all rows up to these cover. ``later``: there
    is more, but none before the next look. ``unread``: why there are none now (``caught_up`` no).
    ``joints`` are the places in ``rows`` at which another attempt of the run begins.
    """

    rows: tuple[Row, ...]
    caught_up: bool
    restarted: bool
    share: float
    later: bool = False
    unread: str = ""
    joints: tuple[int, ...] = ()


def unreadable(why: str) -> RowChunk:
    """Return that rows could not be read at this time."""
    return RowChunk((), caught_up=False, restarted=False, share=0.0, unread=why)


POINTS = 120
"""Points of the series in the value."""


class Series:
    """The loss of every row in ``exact``; of the rest ``sampled`` rows, and the ``newest``.

    ``share`` is how much of the run ``exact`` covers, 0 to 1.
    """

    def __init__(
        self, exact: LossColumns, sampled: Sequence[Row], newest: Sequence[Row], share: float
    ) -> None:
        self.share = share
        self._exact = exact
        self._newest = [row for row in newest if row.step is not None]
        rows = [] if share == 1.0 else [row for row in sampled if row.step is not None]
        self._rows = sorted(rows, key=_row_step)

    def columns(self) -> Sequence[Column]:
        """Return the exact columns, and beyond them one for each sampled row."""
        exact = self._exact.columns()
        end = exact[-1].last if exact else -1
        beyond = [_single(row) for row in self._rows if _row_step(row) > end]
        return PackedColumns((*exact, *beyond)) if beyond else exact

    def points(self) -> tuple[tuple[int, float], ...]:
        """Return about ``POINTS`` logged (step, loss) points, the newest among them."""
        points = self._exact.points(POINTS) if self.share == 1.0 else _points(self._rows)
        last = _points(self._newest)[-1:]
        end = points[-1][0] if points else -1
        return points + tuple(point for point in last if point[0] > end)


def _points(rows: Sequence[Row]) -> tuple[tuple[int, float], ...]:
    return tuple((_row_step(row), loss) for row in rows if (loss := row.true_loss) is not None)


def _row_step(row: Row) -> int:
    return row.step or 0


def _single(row: Row) -> Column:
    step, loss = _row_step(row), row.true_loss
    if loss is None or not math.isfinite(loss):
        return Column(step, step, None, None, None, int(loss is not None))
    return Column(step, step, loss, loss, loss)


MOST_CELLS: Final = 4096
"""Parts that are kept of one metric: a quarter of a run is still drawn in a thousand."""
MOST_RESTARTS: Final = 50


def _within(cell: Cell, span: Span) -> bool:
    """Tell whether any of a column lies in an extent; untimed ones lie in no time."""
    begin, end = (cell.begin, cell.end) if span.by_time else (cell.first, cell.last)
    if begin is None or end is None:
        return False
    return (span.high is None or begin <= span.high) and (span.low is None or end >= span.low)


def _part(cell: Cell) -> Part:
    mean = low = high = None
    if cell.low is not None and cell.high is not None:
        low, high, mean = cell.low[1], cell.high[1], cell.total / cell.count
        if not low <= mean <= high:
            mean = low / 2 + high / 2  # rounding, or a total beyond what a float holds
    return Part(
        cell.first, cell.last, cell.begin, cell.end, low, high, mean, cell.count, cell.nonfinite
    )


class CurveFold:
    """One metric of every row that was added, in logged order."""

    def __init__(self, most: int = MOST_CELLS) -> None:
        self.rows = 0
        self.newest: Point | None = None
        self.broken: Point | None = None
        self._broken_rows = 0
        self._joint = False
        self._restarts: list[Restart] = []
        self._cells: dict[int, Cell] = {}
        self._former: dict[int, Cell] = {}
        self._most = most
        self._width = 1

    def join(self) -> None:
        """Note that the next value is one of another attempt."""
        self._joint = True

    def add(self, step: int, at: float | None, value: float) -> None:
        """Take one value in. A lower step than the one before it is a restart."""
        step = max(0, step)
        if self.newest is not None and (step < self.newest.step or self._joint):
            self._restart(step, at)
        self._joint = False
        self.rows += 1
        self.newest = Point(step, at, value)
        self._mind_broken(self.newest)
        index = step // self._width
        cell = self._cells.get(index)
        if cell is None:
            cell = self._cells[index] = Cell(step)
        cell.add(step, value)
        cell.add_time(at)
        while len(self._cells) > self._most or len(self._former) > self._most:
            self._width *= 2
            self._cells, self._former = halved(self._cells.items()), halved(self._former.items())

    def _mind_broken(self, newest: Point) -> None:
        if math.isfinite(newest.value):
            self.broken, self._broken_rows = None, 0
            return
        self.broken = self.broken or newest
        self._broken_rows += 1

    def _restart(self, step: int, at: float | None) -> None:
        """Keep apart what is trained again; a part that the restart splits stays whole."""
        self._restarts = [*self._restarts[1 - MOST_RESTARTS :], Restart(step, at)]
        self.broken, self._broken_rows = None, 0
        for index in [each for each, cell in self._cells.items() if cell.first >= step]:
            cell = self._cells.pop(index)
            kept = self._former.setdefault(index, cell)
            if kept is not cell:
                kept.merge(cell)

    def curve(self, metric: str, unit: str | None, span: Span, share: float) -> Curve:
        """Return what was added, as far as it lies in ``span``."""
        every = [*self._cells.values(), *self._former.values()]
        begins = [cell.begin for cell in every if cell.begin is not None]
        ends = [cell.end for cell in every if cell.end is not None]
        steps = [cell.first for cell in every], [cell.last for cell in every]
        return Curve(
            metric,
            unit,
            _parts(self._cells, span),
            _parts(self._former, span),
            tuple(self._restarts),
            (min(steps[0]), max(steps[1])) if every else None,
            (min(begins), max(ends)) if begins and ends else None,
            self.newest,
            self.broken,
            self._broken_rows,
            self.rows,
            share,
        )


def _parts(cells: dict[int, Cell], span: Span) -> tuple[Part, ...]:
    """Return the cells of an extent, in at most ``span.most`` parts."""
    inside = [cells[index] for index in sorted(cells) if _within(cells[index], span)]
    each = max(1, math.ceil(len(inside) / max(1, span.most)))
    groups = (inside[at : at + each] for at in range(0, len(inside), each))
    return tuple(_part(_joined(group)) for group in groups)


def _joined(cells: Sequence[Cell]) -> Cell:
    if len(cells) == 1:
        return cells[0]
    made = Cell(cells[0].first)
    for cell in cells:
        made.merge(cell)
    return made


MOST_NAMES: Final = 5000
LONGEST: Final = 200
MOST_ASKED: Final = 8
"""Curves in one answer."""
_RATES: Final = ("lr", "learning_rate", "learning-rate", "learning rate", "learningrate")
_WORD: Final = re.compile(r"[/.:]")
_OWN: Final = "_"
"""What W&B itself adds to each row begins with it."""


class NoCurveError(Exception):
    """There is no such curve; the text is one safe line that says why."""


def offered(names: Iterable[str]) -> dict[str, str]:
    """Return names as they are shown, each with the name as it is logged; sorted, bounded."""
    found = {scrub(clean(each, LONGEST)): each for each in names if not each.startswith(_OWN)}
    return dict(sorted(found.items())[:MOST_NAMES])


def standard(metric: str, keys: MetricKeys) -> str | None:
    """Return which of the rules' own metrics is meant, if one is."""
    told = {LOSS: keys.loss, THROUGHPUT: keys.throughput, GRAD_NORM: keys.grad_norm}
    return next((kind for kind, name in told.items() if metric in (kind, name)), None)


def named(metric: str, there: dict[str, str]) -> str:
    """Return the logged name that is meant; raises ``NoCurveError`` with the nearest ones."""
    if metric in there:
        return there[metric]
    plain = plain_name(metric)
    same = [raw for shown, raw in there.items() if plain_name(shown) == plain]
    if metric == LEARNING_RATE:
        same = _learning_rates(there)
    if same:
        return same[0]
    near = [shown for shown in there if plain in plain_name(shown)][:3]
    hint = f"; near: {', '.join(near)}" if near else ""
    if not there:
        hint = "; no metric was logged yet"
    raise NoCurveError(f"no metric {clean(metric, LONGEST)} was logged{hint}")


def _learning_rates(there: dict[str, str]) -> list[str]:
    """Return what is called a learning rate: by its last word, else by any; shortest first."""
    words = {raw: _WORD.split(plain_name(shown)) for shown, raw in there.items()}
    last = [raw for raw, parts in words.items() if parts[-1] in _RATES]
    found = last or [raw for raw, parts in words.items() if any(each in _RATES for each in parts)]
    return sorted(found, key=lambda raw: (len(raw), raw))


def wanted_of(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return metrics as they are asked for: each once, none empty, few."""
    return tuple(dict.fromkeys(each for each in metrics if each))[:MOST_ASKED]
