"""Curves as one SVG that needs nothing else: no script, no font, nothing from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10
from typing import Final, NamedTuple

from cockpit.model.curve import Curve, why_empty
from cockpit.verbs.plot_chart import (
    Dots,
    Picture,
    dots_of,
    extent_of,
    log_of,
    notes_of,
    place_ticks,
    places_of,
    title_of,
    value_ticks,
    within,
)

LEFT, RIGHT, TOP, BELOW = 80, 30, 30, 80
"""Pixels around a curve, for its labels."""
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
        + "".join(_chart(asked, curve, picture, width, height))
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


def _chart(asked: str, curve: Curve, picture: Picture, width: int, height: int) -> Iterator[str]:
    dots = dots_of(curve.parts, picture.by_time)
    yield _words(LEFT, 18, title_of(asked, curve), "t")
    if not dots:
        yield _words(LEFT, 40, why_empty(curve, picture.by_time))
        return
    extent = extent_of(curve, picture.by_time)
    former = within(dots_of(curve.former, picture.by_time), extent)
    log = log_of([*dots, *former], picture.log)
    axes, bottom = _axes([*dots, *former], extent, log, (width, height)), height - BELOW
    yield from _grid([*dots, *former], extent, log, picture.by_time, axes, (width, height))
    there = within(dots, extent)
    band = [(each.x, each.high) for each in there] + [(each.x, each.low) for each in there[::-1]]
    yield f'<polygon class="b" points="{_points(band, axes)}"/>'
    for kind, line in (("f", former), ("m", there)):
        yield f'<polyline class="{kind}" points="{_points([(e.x, e.mean) for e in line], axes)}"/>'
    for place, mark in places_of(curve, picture.marks, picture.by_time, extent):
        told = f"<title>{escape(f'{mark.kind} {mark.name}'.strip())}</title>"
        at = axes.x(place)
        yield f'<circle cx="{at:.1f}" cy="{bottom}" r="4" fill="{_INKS[mark.kind]}">{told}</circle>'
    notes = [piece for note in notes_of(curve, picture, log) for piece in note.split("; ")]
    for at_line, note in enumerate(notes[:3]):
        yield _words(LEFT, bottom + 34 + 14 * at_line, note)


def _axes(
    dots: Sequence[Dots], extent: tuple[float, float], log: bool, size: tuple[int, int]
) -> Axes:
    scaled: Callable[[float], float] = log10 if log else float
    low, high = scaled(min(each.low for each in dots)), scaled(max(each.high for each in dots))
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    across, up = size[0] - LEFT - RIGHT, size[1] - TOP - BELOW
    return Axes(
        lambda place: LEFT + across * (place - extent[0]) / (extent[1] - extent[0]),
        lambda value: TOP + up * (high / 2 - scaled(value) / 2) / (high / 2 - low / 2),
    )


def _grid(
    dots: Sequence[Dots],
    extent: tuple[float, float],
    log: bool,
    by_time: bool,
    axes: Axes,
    size: tuple[int, int],
) -> Iterator[str]:
    low, high = min(each.low for each in dots), max(each.high for each in dots)
    for value, told in zip(*value_ticks(low, high, log, 5), strict=True):
        at = axes.y(value)
        yield f'<path class="g" d="M{LEFT} {at:.1f}H{size[0] - RIGHT}"/>'
        yield _words(LEFT - 8, at + 4, told, anchor="end")
    for place, told in zip(*place_ticks(extent, by_time, max(2, size[0] // 160)), strict=True):
        yield _words(axes.x(place), size[1] - BELOW + 18, told, anchor="middle")


def _points(points: Sequence[tuple[float, float]], axes: Axes) -> str:
    return " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in points)


def _words(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
