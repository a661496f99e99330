"""Charts in a few cells: a braille canvas with a band per column, and a one-row block line."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from textual.content import Content

from cockpit.model.words import glyph
from widgets.line import text
from widgets.series import Bin, Scale, Series, scale_of

BLOCKS: Final = "▁▂▃▄▅▆▇█"
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SPIKE: Final = 0.34
"""A column whose highest value stands this share of the height above its mean shows that."""

Cell = tuple[str, str]


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
