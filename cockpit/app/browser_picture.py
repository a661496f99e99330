"""What a browser is sent of the screen: rows of text with their colours, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style

Run = tuple[str, int, str, str, str]
Row = tuple[Run, ...]
Picture = tuple[Row, ...]
DIMMED: Final = 0.5
"""How far dim ink goes toward its background."""


def picture(strips: Iterable[Iterable[Segment]], ink: str, ground: str) -> Picture:
    """Return the rows; ``ink`` and ``ground`` (``#rrggbb``) are the default colours."""
    return tuple(_row(strip, ink, ground) for strip in strips)


def changed(shown: Sequence[Row], now: Sequence[Row]) -> dict[int, Row]:
    """Return the rows that differ from what is shown, by their place."""
    return {y: row for y, row in enumerate(now) if y >= len(shown) or shown[y] != row}


def _row(strip: Iterable[Segment], ink: str, ground: str) -> Row:
    runs: list[Run] = []
    for text, style, control in strip:
        if control or not text:
            continue
        look = _colours_of(style or Style.null(), ink, ground)
        if runs and runs[-1][2:] == look:
            text = runs.pop()[0] + text
        runs.append((text, cell_len(text), *look))
    return tuple(runs)


def _colours_of(style: Style, ink: str, ground: str) -> tuple[str, str, str]:
    fore, back = _hex(style.color, ink), _hex(style.bgcolor, ground)
    if style.reverse:
        fore, back = back, fore
    if style.dim:
        fore = _between(fore, back)
    marks = (("b", style.bold), ("i", style.italic), ("u", style.underline), ("s", style.strike))
    return fore, back, "".join(letter for letter, is_set in marks if is_set)


def _hex(color: Color | None, otherwise: str) -> str:
    return otherwise if color is None or color.is_default else color.get_truecolor().hex


def _between(fore: str, back: str) -> str:
    one, other = (bytes.fromhex(each[1:]) for each in (fore, back))
    mixed = (round(a + (b - a) * DIMMED) for a, b in zip(one, other, strict=True))
    return ColorTriplet(*mixed).hex
