"""What Textual paints, as cells: the one place that knows its updates from within.

They are private to its compositor (and to Rich's styles nothing is): tests hold them to what they
would have written themselves, and fail when another Textual paints otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rich.color import ColorSystem
from rich.console import RenderableType
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

from cockpit.app.output.cells import Cell, cells_of
from cockpit.app.output.pens import PLAIN, Pen, pen_of

_RENDERED: Final = re.compile(r"(?:\x1b\]8;([^\x1b\x07]*)\x1b\\)?(?:\x1b\[([\d;]*)m)?x")


def placed(update: RenderableType, colours: ColorSystem) -> Iterator[tuple[int, int, list[Cell]]]:
    """Yield row, column and cells of an update; raises ``TypeError`` for one of another kind."""
    if isinstance(update, LayoutUpdate):
        strips = _of_layout(update)
    elif isinstance(update, ChopsUpdate):
        strips = _of_chops(update)
    else:
        raise TypeError(f"Textual paints a {type(update).__name__}, which is not known here")
    for y, x, strip in strips:
        yield y, x, _cells(strip, colours)


def _of_layout(update: LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            yield y, x, strip
            x += strip.cell_length


def _of_chops(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, start, end in update.spans:
        for chop_end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= end and chop_end > start:
                yield y, x, strip if chop_end <= end else strip.crop(0, end - x)


def _cells(strip: Strip, colours: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in strip:
        if not control:
            cells += _segment(text, style, colours)
    return cells


@lru_cache(maxsize=8192)
def _segment(text: str, style: Style | None, colours: ColorSystem) -> list[Cell]:
    return cells_of(text, PLAIN if style is None else _pen(style, colours))


@lru_cache(maxsize=4096)
def _pen(style: Style, colours: ColorSystem) -> Pen:
    """Return a style as the terminal takes it, by what it renders itself to."""
    found = _RENDERED.match(style.render("x", color_system=colours))
    return PLAIN if found is None else pen_of(found[2] or "", found[1] or "")
