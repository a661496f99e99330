"""A replayed history as a picture in a terminal and as one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from cockpit.model.observed import Column
from cockpit.model.wording import figure, steps
from cockpit.runtime.own_path import Library
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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


WIDTH: Final = 1000
PAGE_HEIGHT: Final = 360
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 10, 30
SHOWN: Final = 500
"""Alerts in the table at most; the rest is counted."""
PAGE_TICKS: Final = 5
HEADS: Final = "".join(
    f'<th scope="col">{head}</th>'
    for head in ("condition", "severity", "what", "opened", "closed", "evidence")
)
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --page: #ffffff;
  --line: #d0d7de; --curve: #0550ae; --band: #b6d4fb; --bad: #a40e26; --alert: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --page: #0d1117;
  --line: #3d444d; --curve: #79c0ff; --band: #1f3d63; --bad: #ff9492; --alert: #e3b341; } }
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; } text { fill: var(--dim); font-size: 13px; }
.curve { fill: none; stroke: var(--curve); stroke-width: 1.5; } .band { fill: var(--band); }
.axis { stroke: var(--line); } .bad { stroke: var(--bad); stroke-width: 2; }
.alert { fill: var(--alert); fill-opacity: 0.22; stroke: var(--alert); }
.critical { fill: var(--bad); fill-opacity: 0.22; stroke: var(--bad); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left;
  vertical-align: top; } caption { text-align: left; color: var(--dim); }
"""


def safe(value: object) -> str:
    """Return any text as a page may hold it: one clean line, no secret, escaped."""
    return escape(scrub(clean(value, 2000)))


def page(document: Mapping[str, Any], columns: Sequence[Column]) -> str:
    """Return the page of ``backtest --json``'s document and the loss of the rows behind it."""
    run, alerts = safe(document["run"]), list(document["alerts"])
    told = f"{document['steps']:,} rows; {len(alerts)} alerts would have opened"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>backtest of {run}</title><style>{STYLE}</style></head><body><main>",
            f"<h1>backtest of {run}</h1><p>{safe(told)}.</p>",
            *_picture(columns, alerts, run),
            *_table(alerts),
            f"<p>Not replayed: {safe(', '.join(document['not_replayed']))}: no history of rows "
            "tells of them.</p></main></body></html>\n",
        )
    )


def _picture(columns: Sequence[Column], alerts: Sequence[Any], run: str) -> Iterator[str]:
    seen = [each for each in columns if each.mean is not None]
    if not seen:
        yield "<p>No finite loss was logged.</p>"
        return
    log = logarithmic(seen)
    first, last = columns[0].first, max(columns[-1].last, columns[0].first + 1)
    low = min(each.low for each in seen if each.low is not None)
    high = max(each.high for each in seen if each.high is not None)
    across, up = _across(first, last), _up(low, high, log)
    axis = "logarithmic" if log else "linear"
    yield f'<svg viewBox="0 0 {WIDTH} {PAGE_HEIGHT}" role="img" aria-labelledby="what how">'
    yield f'<title id="what">loss of {run} over its steps, with alerts marked</title>'
    yield (
        f'<desc id="how">steps {steps(first)} to {steps(last)}, loss {figure(low)} to '
        f"{figure(high)}, {axis} axis; each alert stands in the table below</desc>"
    )
    yield from _ticks(first, last, low, high, log)
    yield from _bands(alerts, first, last, across)
    edge = [(each, across((each.first + each.last) / 2)) for each in seen]
    outline = [(x, up(each.high or 0.0)) for each, x in edge]
    outline += [(x, up(each.low or 0.0)) for each, x in reversed(edge)]
    yield f'<polygon class="band" points="{_points(outline)}"/>'
    curve = _points((x, up(each.mean or 0.0)) for each, x in edge)
    yield f'<polyline class="curve" points="{curve}"/>'
    for each in columns:
        if each.nonfinite:
            x, low = across(each.first), PAGE_HEIGHT - BOTTOM
            yield (
                f'<line class="bad" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{low}">'
                f"<title>NaN or inf from step {steps(each.first)}</title></line>"
            )
    yield "</svg>"


def _across(first: int, last: int) -> Callable[[float], float]:
    room = WIDTH - LEFT - RIGHT
    return lambda step: LEFT + room * min(1.0, max(0.0, (step - first) / (last - first)))


def _up(low: float, high: float, log: bool) -> Callable[[float], float]:
    begin, end = (math.log(low), math.log(high)) if log else (low, high)
    span, room = (end / 2 - begin / 2) or 0.5, PAGE_HEIGHT - TOP - BOTTOM

    def place(value: float) -> float:
        at = math.log(value) if log else value
        return TOP + room * (1 - (at / 2 - begin / 2) / span)

    return place


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _ticks(first: int, last: int, low: float, high: float, log: bool) -> Iterator[str]:
    across, bottom = _across(first, last), PAGE_HEIGHT - BOTTOM
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>'
    for at, value in enumerate(levels(low, high, log, PAGE_TICKS)):
        share = at / (PAGE_TICKS - 1)
        y = TOP + (1 - share) * (bottom - TOP)
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{figure(value)}</text>'
        step = first + round((last - first) * share)
        anchor = "start" if at == 0 else "end" if at == PAGE_TICKS - 1 else "middle"
        x = across(step)
        yield f'<text x="{x:.1f}" y="{PAGE_HEIGHT - 8}" text-anchor="{anchor}">{steps(step)}</text>'


def _bands(
    alerts: Sequence[Any], first: int, last: int, across: Callable[[float], float]
) -> Iterator[str]:
    for each in alerts[:SHOWN]:
        opened = first if each["opened_step"] is None else each["opened_step"]
        closed = last if each["closed_step"] is None else each["closed_step"]
        begin, end = sorted((across(opened), across(closed)))
        kind = "critical" if each["severity"] == "critical" else "alert"
        yield (
            f'<rect class="{kind}" x="{begin:.1f}" y="{TOP}" width="{max(1.0, end - begin):.1f}" '
            f'height="{PAGE_HEIGHT - TOP - BOTTOM}"><title>{safe(each["id"])} {safe(each["title"])}'
            "</title></rect>"
        )


def _table(alerts: Sequence[Any]) -> Iterator[str]:
    if not alerts:
        return
    left = f"; {len(alerts) - SHOWN:,} more are not shown" if len(alerts) > SHOWN else ""
    yield f'<div class="scroll"><table><caption>what would have opened{left}</caption><thead>'
    yield f"<tr>{HEADS}</tr></thead><tbody>"
    for each in alerts[:SHOWN]:
        opened = _moment(each["opened_step"], each["opened_at"])
        closed = _moment(each["closed_step"], each["closed_at"]) if each["closed"] else "still open"
        evidence = "<br>".join(safe(line["text"]) for line in each["evidence"])
        cells = (safe(each["severity"]), safe(each["title"]), opened, closed, evidence)
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{safe(each["id"])}</th>{row}</tr>'
    yield "</tbody></table></div>"


def _moment(step: int | None, at: str | None) -> str:
    when = "" if at is None else f"<br>{safe(at)}"
    return f"step {steps(step)}{when}"
