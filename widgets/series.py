"""A run's loss folded into as many columns as a chart has: extremes, mean, and what is no number.

Both the exact columns of the background pass and the sampled history are used, so that the
chart is alive from the first look and honest as soon as everything has been read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from cockpit.model.observed import Column
from cockpit.model.report import RunReport


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
