"""The picture of a replayed history in a terminal: the loss over its steps, alerts below it.

Readable without colour: what is open is a bar ``[==]`` in the lane of its condition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.model.observed import Column
from cockpit.model.wording import figure, steps
from cockpit.runtime.own_path import Library

HEIGHT: Final = 18
NARROW: Final = 30
"""Columns below which nothing can be drawn."""
DECADE: Final = 10.0
"""Highest mean to lowest from which an axis is logarithmic."""
TICKS: Final = 4
MOST: Final = 1e300
"""Values beyond it are drawn there: differences of larger ones are no numbers."""
MARK: Final = "┤"
NAN: Final = "NaN"
LEGEND: Final = "[==] opened to closed; no ] while open; # both in one column"


class Span(NamedTuple):
    """One alert in a lane: ``closed`` is ``None`` while it is open."""

    lane: str
    opened: int
    closed: int | None


def logarithmic(columns: Sequence[Column]) -> bool:
    """Tell whether a logarithmic axis shows more: all is above 0, and over more than a decade."""
    lows = [each.low for each in columns if each.low is not None]
    means = [each.mean for each in columns if each.mean is not None]
    return bool(lows) and min(lows) > 0 and max(means) > DECADE * min(means)


def chart(columns: Sequence[Column], spans: Sequence[Span], width: int) -> list[str]:
    """Return the picture's lines, none wider than ``width``; none where there is no finite loss."""
    seen = [each for each in columns if each.mean is not None]
    if not seen or width < NARROW:
        return []
    first, last = columns[0].first, max(columns[-1].last, columns[0].first + 1)
    lanes = sorted({span.lane for span in spans})
    label = max(map(len, (*lanes, NAN)))
    lines = _curve(seen, first, last, width)
    indent = label - left_of(lines)
    if indent > 0:
        lines = [" " * indent + line for line in _curve(seen, first, last, width - indent)]
    left, right = left_of(lines), max(line.rfind("│") for line in lines)
    places = Places(first, last, left, right - left - 1)
    found = [_lane(lane, [span for span in spans if span.lane == lane], places) for lane in lanes]
    bad = [each for each in columns if each.nonfinite]
    if bad:
        found.append(_bad(bad, places))
    return [*lines, *found, LEGEND[:width]] if found else lines


def left_of(lines: Sequence[str]) -> int:
    """Return the column of the vertical axis."""
    return max(line.find(MARK) for line in lines)


def levels(low: float, high: float, log: bool, count: int) -> list[float]:
    """Return ``count`` values from ``low`` to ``high``, evenly apart on the axis."""
    shares = [at / (count - 1) for at in range(count)]
    if log:
        first, last = math.log(low), math.log(high)
        return [math.exp(first * (1 - share) + last * share) for share in shares]
    return [low * (1 - share) + high * share for share in shares]


def _curve(seen: Sequence[Column], first: int, last: int, width: int) -> list[str]:
    with Library("plotext", "the chart of a backtest"):
        import plotext

    lows, highs, means = (
        [min(MOST, max(-MOST, value or 0.0)) for value in values]
        for values in zip(*((each.low, each.high, each.mean) for each in seen), strict=True)
    )
    log = logarithmic(seen)
    middles = [(each.first + each.last) / 2 for each in seen]
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(width, HEIGHT)
    plotext.scatter(middles, lows, marker="braille")
    plotext.scatter(middles, highs, marker="braille")
    plotext.plot(middles, means, marker="braille")
    plotext.xlim(first, last)
    if log:
        plotext.yscale("log")
    places = sorted({first + (last - first) * at // TICKS for at in range(TICKS + 1)})
    plotext.xticks(places, [steps(place) for place in places])
    marks = sorted(set(levels(min(lows), max(highs), log, TICKS + 1)))
    plotext.yticks(marks, [figure(mark) for mark in marks])
    plotext.title(f"loss {figure(min(lows))} to {figure(max(highs))}" + ", log axis" * log)
    drawn: str = plotext.uncolorize(plotext.build())
    plotext.clear_figure()
    return [line.rstrip()[:width] for line in drawn.splitlines()]


class Places(NamedTuple):
    """Where steps stand: ``first`` in the column behind ``left``, ``last`` ``across`` further."""

    first: int
    last: int
    left: int
    across: int

    def of(self, step: int) -> int:
        """Return how far behind ``left`` a step stands."""
        inside = min(max(step, self.first), self.last) - self.first
        return inside * (self.across - 1) // (self.last - self.first)


def _lane(name: str, spans: Sequence[Span], places: Places) -> str:
    """Return one condition's line: ``[`` where it opened, ``]`` where it closed."""
    line = [" "] * places.across
    for span in spans:
        begin = places.of(span.opened)
        end = places.across - 1 if span.closed is None else places.of(span.closed)
        begin, end = min(begin, end), max(begin, end)
        line[begin : end + 1] = "=" * (end + 1 - begin)
        line[begin] = "[" if end > begin or span.closed is None else "#"
        if span.closed is not None and end > begin:
            line[end] = "]"
    return lane_named(name, line, places)


def _bad(columns: Sequence[Column], places: Places) -> str:
    line = [" "] * places.across
    for each in columns:
        begin, end = places.of(each.first), places.of(each.last)
        line[begin : end + 1] = "×" * (end + 1 - begin)
    return lane_named(NAN, line, places)


def lane_named(name: str, line: list[str], places: Places) -> str:
    """Return a line below a chart, its name before the axis."""
    return f"{name:>{places.left}}│{''.join(line)}".rstrip()
