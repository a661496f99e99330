"""A replayed history as a picture in a terminal and as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from cockpit.model.curve import LOSS, of_columns
from cockpit.model.observed import Column
from cockpit.model.wording import figure, steps
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from cockpit.verbs.plot_chart import (
    Axes,
    Dots,
    Frame,
    Places,
    above_lanes,
    axes_of,
    dots_of,
    extent_of,
    grid,
    lane_named,
    svg_curve,
    text_curve,
)

HEIGHT: Final = 18
NARROW: Final = 30
"""Columns below which nothing can be drawn."""
DECADE: Final = 10.0
"""Highest mean to lowest from which an axis is logarithmic."""
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
    dots, extent = _drawable(columns)
    if not dots or width < NARROW:
        return []
    lanes = sorted({span.lane for span in spans})
    log = logarithmic(columns)
    low, high = _ends(dots)
    title = f"loss {low} to {high}" + ", log axis" * log

    def drawn(across: int) -> list[str]:
        return text_curve(dots, (), extent, log, False, (across, HEIGHT), title)

    lines, places = above_lanes(drawn, extent, width, max(map(len, (*lanes, NAN))))
    found = [_lane(lane, [span for span in spans if span.lane == lane], places) for lane in lanes]
    bad = [each for each in columns if each.nonfinite]
    if bad:
        found.append(_bad(bad, places))
    return [*lines, *found, LEGEND[:width]] if found else lines


def _drawable(columns: Sequence[Column]) -> tuple[list[Dots], tuple[float, float]]:
    curve = of_columns(LOSS, columns, 1.0)
    return dots_of(curve.parts, by_time=False), extent_of(curve, by_time=False)


def _ends(dots: Sequence[Dots]) -> tuple[str, str]:
    """Return the lowest and the highest value in words."""
    return figure(min(each.low for each in dots)), figure(max(each.high for each in dots))


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


FRAME: Final = Frame(1000, 360, left=70, right=10, top=10, below=30)
SHOWN: Final = 500
"""Alerts in the table at most; the rest is counted."""
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
.m { fill: none; stroke: var(--curve); stroke-width: 1.5; } .b { fill: var(--band); }
.g { stroke: var(--line); } .bad { stroke: var(--bad); stroke-width: 2; }
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
    dots, extent = _drawable(columns)
    if not dots:
        yield "<p>No finite loss was logged.</p>"
        return
    log = logarithmic(columns)
    axes, bottom = axes_of(dots, extent, log, FRAME), FRAME.height - FRAME.below
    axis = "logarithmic" if log else "linear"
    yield f'<svg viewBox="0 0 {FRAME.width} {FRAME.height}" role="img" aria-labelledby="what how">'
    yield f'<title id="what">loss of {run} over its steps, with alerts marked</title>'
    low, high = _ends(dots)
    first, last = map(round, extent)
    yield (
        f'<desc id="how">steps {steps(first)} to {steps(last)}, loss {low} to '
        f"{high}, {axis} axis; each alert stands in the table below</desc>"
    )
    yield from grid(dots, extent, log, False, FRAME)
    yield from _bands(alerts, extent, axes)
    yield from svg_curve(dots, axes)
    for each in columns:
        if each.nonfinite:
            x = axes.x(each.first)
            yield (
                f'<line class="bad" x1="{x:.1f}" x2="{x:.1f}" y1="{FRAME.top}" y2="{bottom}">'
                f"<title>NaN or inf from step {steps(each.first)}</title></line>"
            )
    yield "</svg>"


def _bands(alerts: Sequence[Any], extent: tuple[float, float], axes: Axes) -> Iterator[str]:
    first, last = extent
    for each in alerts[:SHOWN]:
        opened = first if each["opened_step"] is None else each["opened_step"]
        closed = last if each["closed_step"] is None else each["closed_step"]
        begin, end = sorted(axes.x(min(last, max(first, at))) for at in (opened, closed))
        kind = "critical" if each["severity"] == "critical" else "alert"
        size = (
            f'width="{max(1.0, end - begin):.1f}" height="{FRAME.height - FRAME.top - FRAME.below}"'
        )
        yield (
            f'<rect class="{kind}" x="{begin:.1f}" y="{FRAME.top}" {size}>'
            f"<title>{safe(each['id'])} {safe(each['title'])}</title></rect>"
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
