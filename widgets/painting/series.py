"""A run's loss folded into as many columns as a chart has: extremes, mean, and what is no number.

Both the exact columns of the background pass and the sampled history are used, so that the
chart is alive from the first look and honest as soon as everything has been read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.report import RunReport
from cockpit.model.wording import glyph
from widgets.painting.line import text

BLOCKS: Final = "▁▂▃▄▅▆▇█"
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SPIKE: Final = 0.34
"""A column whose highest value stands this share of the height above its mean shows that."""

Cell = tuple[str, str]


class Bin(NamedTuple):
    """What falls in one column; ``None`` is a gap, ``bad`` that something was not finite."""

    low: float | None = None
    high: float | None = None
    mean: float | None = None
    bad: bool = False


@dataclass
class Series:
    """Bins over the steps ``[first, last]``."""

    first: int
    last: int
    bins: list[Bin]

    @property
    def extent(self) -> tuple[float, float] | None:
        """Return the lowest and highest finite value."""
        lows = [each.low for each in self.bins if each.low is not None]
        highs = [each.high for each in self.bins if each.high is not None]
        return (min(lows), max(highs)) if lows and highs else None

    @property
    def bad(self) -> int:
        """Return how many bins hold something that is not a number."""
        return sum(each.bad for each in self.bins)


def loss_columns(report: RunReport) -> list[Column]:
    """Return everything known of the loss as columns: the tracker's, else the log's rows."""
    tracker = report.facets.tracker.value
    if tracker is not None and (tracker.columns or tracker.history):
        return [*(_point(step, value) for step, value in tracker.history), *tracker.columns]
    log = report.facets.log.value
    rows = log.rows if log is not None else ()
    return [_point(r.step, r.loss) for r in rows if r.step is not None and r.loss is not None]


def fold(columns: Sequence[Column], count: int, tail: float = 1.0) -> Series | None:
    """Fold columns into at most ``count`` bins over the last ``tail`` share of the steps."""
    if not columns or count < 1:
        return None
    last = max(each.last for each in columns)
    first = min(each.first for each in columns)
    first = last - math.floor((last - first) * min(1.0, max(0.0, tail)))
    count = min(count, last - first + 1)
    shown = [each for each in columns if each.last >= first]
    gathered = [_Gathered() for _ in range(count)]
    for each in shown:
        begin = (max(first, each.first) - first) * count // (last - first + 1)
        end = (each.last - first) * count // (last - first + 1)
        for place in range(begin, end + 1):
            gathered[place].add(each)
    return Series(first, last, _bridged(gathered))


def _point(step: int, value: float) -> Column:
    if not math.isfinite(value):
        return Column(step, step, None, None, None, 1)
    return Column(step, step, value, value, value, 0)


@dataclass
class _Gathered:
    low: float = math.inf
    high: float = -math.inf
    points: float = 0.0
    number: int = 0
    bad: bool = False
    seen: bool = False

    def add(self, each: Column) -> None:
        self.seen = True
        self.bad = self.bad or each.nonfinite > 0
        if each.low is None or each.high is None:
            return
        if not (math.isfinite(each.low) and math.isfinite(each.high)):
            self.bad = True
            return
        self.low, self.high = min(self.low, each.low), max(self.high, each.high)
        middle = each.mean if each.mean is not None and math.isfinite(each.mean) else each.low
        self.number += 1
        self.points += (middle - self.points) / self.number

    def bin(self) -> Bin:
        if not self.number:
            return Bin(bad=self.bad)
        mean = min(max(self.points, self.low), self.high)
        return Bin(self.low, self.high, mean, self.bad)


def _bridged(gathered: list[_Gathered]) -> list[Bin]:
    """Return bins; those between two rows that were logged one after the other get a line."""
    bins = [each.bin() for each in gathered]
    places = [at for at, each in enumerate(gathered) if each.seen]
    for begin, end in pairwise(places):
        for at in range(begin + 1, end):
            bins[at] = _between(bins[begin], bins[end], (at - begin) / (end - begin))
    return bins


def _between(one: Bin, other: Bin, share: float) -> Bin:
    if one.mean is None or other.mean is None:
        return Bin()
    middle = one.mean * (1 - share) + other.mean * share
    return Bin(middle, middle, middle)


class Scale(NamedTuple):
    """Maps values to 0..1 between ``low`` and ``high``, on a logarithmic axis if ``log``."""

    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        """Return where ``value`` lies, 0 at the bottom; 0.5 if there is no extent."""
        low, high, value = (_log(v) if self.log else v / 2 for v in (self.low, self.high, value))
        return 0.5 if high <= low else min(1.0, max(0.0, (value - low) / (high - low)))

    def back(self, share: float) -> float:
        """Return the value that lies at ``share``."""
        if self.log:
            low, high = _log(self.low), _log(self.high)
            return math.exp(low + (high - low) * share)
        return self.low * (1 - share) + self.high * share


AUTO_LOG = 6.0
"""An extent of more than this ratio is drawn logarithmically unless asked otherwise."""


def scale_of(extent: tuple[float, float], log: bool | None = None) -> Scale:
    """Return the scale of an extent; ``log`` ``None`` decides by its ratio."""
    low, high = extent
    can = low > 0
    return Scale(low, high, can and (high / low > AUTO_LOG if log is None else log))


def _log(value: float) -> float:
    return math.log(max(value, 5e-324))


def block_line(series: Series | None, width: int, ink: str, bad: str = "$critical") -> Content:
    """Return one row of blocks, at most ``width`` cells; ``×`` where a value was no number."""
    extent = None if series is None else series.extent
    if series is None:
        return Content("")
    scale = None if extent is None else scale_of(extent)
    return _row([_block(each, scale, ink, bad) for each in series.bins[:width]])


def _block(each: Bin, scale: Scale | None, ink: str, bad: str) -> Cell:
    if each.bad:
        return glyph("nonfinite"), bad
    if scale is None or each.mean is None or each.high is None:
        return " ", ""
    middle, top = scale(each.mean), scale(each.high)
    return BLOCKS[min(7, int((top if top - middle > _SPIKE else middle) * 8))], ink


class Canvas:
    """Braille dots, two columns and four rows a cell, each cell in one of two inks."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits = [[0] * width for _ in range(height)]
        self._main = [[False] * width for _ in range(height)]

    def column(self, x: int, low: int, high: int, main: bool) -> None:
        """Set the dots ``low`` to ``high`` (0 = bottom) of dot column ``x``."""
        for y in range(max(0, low), min(self.height * 4 - 1, high) + 1):
            up = self.height * 4 - 1 - y
            self._bits[up // 4][x // 2] |= _DOTS[x % 2][up % 4]
            self._main[up // 4][x // 2] |= main

    def cells(self, ink: str, band: str) -> list[list[Cell]]:
        """Return the rows of cells from the top."""
        return [
            [
                (chr(0x2800 + bits), ink if main else band) if bits else (" ", "")
                for bits, main in zip(bits_row, main_row, strict=True)
            ]
            for bits_row, main_row in zip(self._bits, self._main, strict=True)
        ]


def plot(
    series: Series,
    scale: Scale,
    width: int,
    height: int,
    ink: str,
    band: str,
    bad: str = "$critical",
) -> list[Content]:
    """Return ``height`` rows: the mean as a line, the extremes as a band, ``×`` for non-numbers."""
    canvas = Canvas(width, height)
    top = height * 4 - 1
    former: int | None = None
    for x, each in enumerate(series.bins[: width * 2]):
        former = _draw(canvas, x, each, scale, top, former)
    cells = canvas.cells(ink, band)
    for x, each in enumerate(series.bins[: width * 2]):
        if each.bad:
            cells[-1][x // 2] = (glyph("nonfinite"), bad)
    return [_row(row) for row in cells]


def _draw(
    canvas: Canvas, x: int, each: Bin, scale: Scale, top: int, former: int | None
) -> int | None:
    if each.low is None or each.high is None or each.mean is None:
        return None
    low, high, mean = (round(scale(value) * top) for value in (each.low, each.high, each.mean))
    canvas.column(x, low, high, main=False)
    canvas.column(x, mean, mean, main=True)
    if former is not None and abs(mean - former) > 1:
        canvas.column(x, min(mean, former + 1), max(mean, former - 1), main=True)
    return mean


def _row(cells: list[Cell]) -> Content:
    runs = groupby(cells, key=lambda cell: cell[1])
    return text(*(("".join(mark for mark, _ in run), ink) for ink, run in runs))
