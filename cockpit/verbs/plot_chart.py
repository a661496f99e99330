"""Curves as text (plotext) and as one self-contained SVG, and the parts that a backtest shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from html import escape
from math import log10
from typing import Final, NamedTuple

from cockpit.model.curve import (
    Curve,
    Part,
    figures,
    log_values,
    round_steps,
    round_times,
    round_values,
    step_then,
    why_empty,
)
from cockpit.model.curve import time_figures as clock_figures
from cockpit.model.wording import moment, number, percent, steps
from cockpit.runtime.own_path import Library

LEAST: Final = 40
"""Columns below which nothing can be drawn."""
MOST: Final = 1e300
"""Values beyond it are drawn there: differences of larger ones are no numbers."""
_CUT: Final = 0.1
"""Share of an axis that non-finite values may fill at its end before it is cut there."""
_SIGNS: Final = {"checkpoint": "o", "torn checkpoint": "x", "rejected checkpoint": "x",
                 "restart": "R", "alert": "!"}  # fmt: skip
_LANES: Final = {"checkpoint": "saved", "torn checkpoint": "saved", "rejected checkpoint": "saved",
                 "restart": "restart", "alert": "alert"}  # fmt: skip


class ChartEvent(NamedTuple):
    """What happened to a run: at which step and when (epoch s), as far as that is known."""

    kind: str
    name: str
    step: int | None
    at: float | None


@dataclass(frozen=True)
class Picture:
    """What is drawn: a curve for each metric, and what is marked on all of them."""

    metrics: Sequence[str]
    curves: Sequence[Curve]
    marks: Sequence[ChartEvent]
    by_time: bool
    log: bool


class Dots(NamedTuple):
    """A part on its axis: the middle of its steps or times, and its finite values."""

    x: float
    low: float
    high: float
    mean: float


def charts(picture: Picture, width: int, height: int) -> list[str]:
    """Return the lines of all charts, none wider than ``width``."""
    lines: list[str] = []
    for asked, curve in zip(picture.metrics, picture.curves, strict=True):
        lines += [*([""] if lines else []), *_chart(asked, curve, picture, width, height)]
    return lines


def title_of(asked: str, curve: Curve) -> str:
    """Return what a chart shows: the metric, its newest value with unit, step and time."""
    logged = f" ({curve.metric})" if curve.metric != asked else ""
    if curve.newest is None:
        return f"{asked}{logged}"
    unit = f" {curve.unit}" if curve.unit else ""
    at = "" if curve.newest.at is None else f", {moment(curve.newest.at)}"
    told = f"{asked}{logged}  {number(curve.newest.value)}{unit} at step "
    return f"{told}{steps(curve.newest.step)}{at}"


def dots_of(parts: Sequence[Part], by_time: bool) -> list[Dots]:
    """Return what can be drawn of parts, in the order of the axis."""
    return sorted(_dots(parts, by_time))


def _dots(parts: Sequence[Part], by_time: bool) -> Iterator[Dots]:
    for part in parts:
        begin, end = (part.begin, part.end) if by_time else (part.first, part.last)
        if begin is None or end is None or part.mean is None:
            continue
        values = (part.low, part.high, part.mean)
        low, high, mean = (min(MOST, max(-MOST, value or 0.0)) for value in values)
        yield Dots((begin + end) / 2, low, high, mean)


def within(dots: Sequence[Dots], extent: tuple[float, float]) -> list[Dots]:
    """Return what stands on an axis."""
    return [each for each in dots if extent[0] <= each.x <= extent[1]]


def extent_of(curve: Curve, by_time: bool) -> tuple[float, float]:
    """Return the axis' ends: without a long end of values that are no numbers."""
    ends = [(part.begin, part.end) if by_time else (part.first, part.last) for part in curve.parts]
    begins = [begin for begin, _ in ends if begin is not None]
    last = max((end for _, end in ends if end is not None), default=0.0)
    first = min(begins, default=0.0)
    broken = None if curve.broken is None else (curve.broken.at if by_time else curve.broken.step)
    if broken is not None and first < broken and last - broken > (last - first) * _CUT:
        last = broken
    return first, max(last, first + 1)


def places_of(
    curve: Curve, marks: Sequence[ChartEvent], by_time: bool, extent: tuple[float, float]
) -> Iterator[tuple[float, ChartEvent]]:
    """Return what is marked within an extent, each with its place there."""
    restarts = (ChartEvent("restart", "", each.step, each.at) for each in curve.restarts)
    for mark in (*marks, *restarts):
        step = mark.step
        if step is None and mark.at is not None:
            step = step_then(curve, mark.at)
        place = mark.at if by_time else step
        if place is not None and extent[0] <= place <= extent[1]:
            yield place, mark


def value_ticks(low: float, high: float, log: bool, count: int) -> tuple[list[float], list[str]]:
    """Return round values of an axis and how they are written."""
    values = (log_values if log else round_values)(low, high, count)
    return values, figures(values)


def place_ticks(
    extent: tuple[float, float], by_time: bool, count: int
) -> tuple[list[int], list[str]]:
    """Return round steps or moments of an axis and how they are written."""
    first, last = math.floor(extent[0]), math.ceil(extent[1])
    if by_time:
        times = round_times(first, last, count)
        return times, clock_figures(times, UTC)
    places = round_steps(first, last, count)
    return places, [steps(each) for each in places]


def log_of(dots: Sequence[Dots], wanted: bool) -> bool:
    """Tell whether an axis can be logarithmic as it was wanted: all is above 0."""
    return wanted and min(each.low for each in dots) > 0


def notes_of(curve: Curve, picture: Picture, log: bool) -> list[str]:
    """Return what has to be said beside a chart, one line each."""
    found = [curve.note] if curve.note else []
    if curve.share < 1:
        found.append(f"{percent(curve.share)} of its record was read")
    if picture.log and not log:
        found.append("linear axis: not all values are above 0")
    if curve.broken is not None:
        when = "" if curve.broken.at is None else f" ({moment(curve.broken.at)})"
        since = f"NaN or inf since step {steps(curve.broken.step)}{when}"
        place = curve.broken.at if picture.by_time else curve.broken.step
        ends = extent_of(curve, picture.by_time)[1] == place
        found.append(f"{since}, {curve.broken_rows:,} rows" + "; the axis ends there" * ends)
    if picture.by_time:
        found.append("times are UTC")
    if curve.former:
        found.append("dotted: logged before a restart, at steps that were trained again")
    return found


def _chart(asked: str, curve: Curve, picture: Picture, width: int, height: int) -> list[str]:
    dots = dots_of(curve.parts, picture.by_time)
    if not dots:
        return [f"{title_of(asked, curve)}: {why_empty(curve, picture.by_time)}"]
    extent = extent_of(curve, picture.by_time)
    former = within(dots_of(curve.former, picture.by_time), extent)
    log = log_of([*dots, *former], picture.log)
    found = list(places_of(curve, picture.marks, picture.by_time, extent))
    label = max((len(_LANES[mark.kind]) for _, mark in found), default=0)

    def drawn(columns: int) -> list[str]:
        return text_curve(dots, former, extent, log, picture.by_time, (columns, height))

    lines, places = above_lanes(drawn, extent, width, label)
    lanes = _lanes(found, places)
    notes = [each[:width] for each in notes_of(curve, picture, log)]
    return [title_of(asked, curve)[:width], *lines, *lanes, *notes]


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


def above_lanes(
    draw: Callable[[int], list[str]], extent: tuple[float, float], width: int, label: int
) -> tuple[list[str], Places]:
    """Return a curve's lines with room for names of ``label`` cells, and where its steps stand."""
    lines = draw(width)
    indent = label - _axis_column(lines)
    if indent > 0:
        lines = [" " * indent + line for line in draw(width - indent)]
    left, right = _axis_column(lines), max(line.rfind("│") for line in lines)
    return lines, Places(math.floor(extent[0]), math.ceil(extent[1]), left, right - left - 1)


def _axis_column(lines: Sequence[str]) -> int:
    return max(line.find("┤") for line in lines)


def lane_named(name: str, line: list[str], places: Places) -> str:
    """Return a line below a chart, its name before the axis."""
    return f"{name:>{places.left}}│{''.join(line)}".rstrip()


def text_curve(
    dots: Sequence[Dots],
    former: Sequence[Dots],
    extent: tuple[float, float],
    log: bool,
    by_time: bool,
    size: tuple[int, int],
    title: str = "",
) -> list[str]:
    """Return the curve within its axes: its mean as a line, its extremes and ``former`` as dots."""
    with Library("plotext", "a plot as text"):
        import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(*size)
    every = [*dots, *former]
    middles = [each.x for each in dots]
    plotext.scatter(middles, [each.low for each in dots], marker="braille")
    plotext.scatter(middles, [each.high for each in dots], marker="braille")
    if former:
        plotext.scatter([each.x for each in former], [each.mean for each in former], marker="dot")
    plotext.plot(middles, [each.mean for each in dots], marker="braille")
    plotext.xlim(*extent)
    if log:
        plotext.yscale("log")
    low, high = min(each.low for each in every), max(each.high for each in every)
    plotext.xticks(*place_ticks(extent, by_time, max(2, size[0] // 20)))
    plotext.yticks(*value_ticks(low, high, log, max(2, size[1] // 3)))
    if title:
        plotext.title(title)
    drawn: str = plotext.uncolorize(plotext.build())
    plotext.clear_figure()
    return [line.rstrip()[: size[0]] for line in drawn.splitlines()]


def _lanes(found: Sequence[tuple[float, ChartEvent]], places: Places) -> list[str]:
    """Return a line for each kind of what happened: ``saved │   o    o  x``."""
    lanes: dict[str, list[str]] = {}
    for place, mark in found:
        line = lanes.setdefault(_LANES[mark.kind], [" "] * places.across)
        at = places.of(round(place))
        words = _SIGNS[mark.kind] + mark.name
        words = words if at + len(words) <= places.across else words[:1]
        line[at : at + len(words)] = words
    return [lane_named(name, line, places) for name, line in lanes.items()]


class Frame(NamedTuple):
    """The pixels of a chart, and those around its curve, for labels."""

    width: int
    height: int
    left: int = 80
    right: int = 30
    top: int = 30
    below: int = 80


_INKS: Final = {"checkpoint": "#2e8b57", "torn checkpoint": "#c0392b",
                "rejected checkpoint": "#c0392b", "restart": "#2c6fbb",
                "alert": "#c0392b"}  # fmt: skip
_STYLE: Final = (
    "text{font:12px monospace;fill:#333}.t{font-weight:bold}.g{stroke:#ddd}"
    ".m{stroke:#2c6fbb;fill:none;stroke-width:1.5}.b{fill:#2c6fbb;opacity:.2}"
    ".f{stroke:#999;fill:none}"
)


class Axes(NamedTuple):
    """Where a place and a value stand, in pixels."""

    x: Callable[[float], float]
    y: Callable[[float], float]


def svg(name: str, picture: Picture, width: int, height: int) -> str:
    """Return the document: one chart below the other, each ``height`` pixels high."""
    charts = zip(picture.metrics, picture.curves, strict=True)
    drawn = [
        f'<g transform="translate(0,{at * height})">'
        + "".join(_svg_chart(asked, curve, picture, width, height))
        + "</g>"
        for at, (asked, curve) in enumerate(charts)
    ]
    total = height * len(drawn)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" '
        f'viewBox="0 0 {width} {total}"><title>{escape(name)}</title>'
    )
    back = f'<style>{_STYLE}</style><rect width="{width}" height="{total}" fill="#fff"/>'
    return "\n".join([head + back, *drawn, "</svg>"])


def _svg_chart(
    asked: str, curve: Curve, picture: Picture, width: int, height: int
) -> Iterator[str]:
    dots = dots_of(curve.parts, picture.by_time)
    frame = Frame(width, height)
    yield _svg_text(frame.left, 18, title_of(asked, curve), "t")
    if not dots:
        yield _svg_text(frame.left, 40, why_empty(curve, picture.by_time))
        return
    extent = extent_of(curve, picture.by_time)
    former = within(dots_of(curve.former, picture.by_time), extent)
    log = log_of([*dots, *former], picture.log)
    axes, bottom = axes_of([*dots, *former], extent, log, frame), height - frame.below
    yield from grid([*dots, *former], extent, log, picture.by_time, frame)
    there = within(dots, extent)
    yield from svg_curve(there, axes)
    if former:
        yield f'<polyline class="f" points="{_points([(e.x, e.mean) for e in former], axes)}"/>'
    for place, mark in places_of(curve, picture.marks, picture.by_time, extent):
        told = f"<title>{escape(f'{mark.kind} {mark.name}'.strip())}</title>"
        at = axes.x(place)
        yield f'<circle cx="{at:.1f}" cy="{bottom}" r="4" fill="{_INKS[mark.kind]}">{told}</circle>'
    notes = [piece for note in notes_of(curve, picture, log) for piece in note.split("; ")]
    for at_line, note in enumerate(notes[:3]):
        yield _svg_text(frame.left, bottom + 34 + 14 * at_line, note)


def svg_curve(dots: Sequence[Dots], axes: Axes) -> Iterator[str]:
    """Yield the band of a curve's extremes (class ``b``), then its mean as a line (``m``)."""
    band = [(each.x, each.high) for each in dots] + [(each.x, each.low) for each in dots[::-1]]
    yield f'<polygon class="b" points="{_points(band, axes)}"/>'
    yield f'<polyline class="m" points="{_points([(e.x, e.mean) for e in dots], axes)}"/>'


def axes_of(dots: Sequence[Dots], extent: tuple[float, float], log: bool, frame: Frame) -> Axes:
    """Return where places within an extent, and the values of ``dots``, stand."""
    scaled: Callable[[float], float] = log10 if log else float
    low, high = scaled(min(each.low for each in dots)), scaled(max(each.high for each in dots))
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    across = frame.width - frame.left - frame.right
    up = frame.height - frame.top - frame.below
    return Axes(
        lambda place: frame.left + across * (place - extent[0]) / (extent[1] - extent[0]),
        lambda value: frame.top + up * (high / 2 - scaled(value) / 2) / (high / 2 - low / 2),
    )


def grid(
    dots: Sequence[Dots], extent: tuple[float, float], log: bool, by_time: bool, frame: Frame
) -> Iterator[str]:
    """Yield the lines (class ``g``) and labels of both axes."""
    axes = axes_of(dots, extent, log, frame)
    low, high = min(each.low for each in dots), max(each.high for each in dots)
    for value, told in zip(*value_ticks(low, high, log, 5), strict=True):
        at = axes.y(value)
        yield f'<path class="g" d="M{frame.left} {at:.1f}H{frame.width - frame.right}"/>'
        yield _svg_text(frame.left - 8, at + 4, told, anchor="end")
    count, bottom = max(2, frame.width // 160), frame.height - frame.below
    for place, told in zip(*place_ticks(extent, by_time, count), strict=True):
        yield _svg_text(axes.x(place), bottom + 18, told, anchor="middle")


def _points(points: Sequence[tuple[float, float]], axes: Axes) -> str:
    return " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in points)


def _svg_text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
