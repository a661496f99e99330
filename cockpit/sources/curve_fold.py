"""One metric's rows folded into a curve of bounded size, and which metric is meant by a name.

As for the loss (``LossColumns``), parts are equally wide in steps and neighbours merge when there
are too many. Times are kept beside them, and what a restart has made obsolete is kept apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.curve import (
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    THROUGHPUT,
    Curve,
    Part,
    Point,
    Restart,
    Span,
)
from cockpit.sources.loss_fold import Cell, halved
from cockpit.sources.metric_keys import MetricKeys, plain_name
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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
