"""What each cell of a screen is painted in, in every theme at once; and pictures made of that.

An ink goes by the names of the themes' colours (``bold critical on cursor``). A name stands for
one colour in each theme, so a row of names says of all themes how they paint it; what a theme
would paint otherwise than the others has no name and stands there as its colours.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.pilot import Pilot

from themes.loader import load_themes

THEMES: Final = tuple(load_themes())
GROUND: Final = "background"
SAME: Final = "="
"""A row that is painted as the one above it."""
Grid = list[list[str]]
"""The style of each cell, row after row."""


def grid(pilot: Pilot[Any]) -> Grid:
    """Return how the screen is painted now; of what is blank only its ground counts."""
    rows = []
    for strip in pilot.app.screen._compositor.render_strips():
        row: list[str] = []
        for segment in strip:
            style = segment.style or Style()
            if not segment.text.strip() and not (style.reverse or style.underline):
                style = Style(bgcolor=style.bgcolor)
            row += [str(style)] * segment.cell_length
        rows.append(row)
    return rows


def named(grids: Sequence[Grid]) -> str:
    """Return the rows of inks of one screen, painted in each theme: ``12 dim; 3 bold ink``."""
    rows = []
    for cells in zip(*grids, strict=True):
        inks = groupby(map(_ink, zip(*cells, strict=True)))
        runs = _joined((ink, len(list(run))) for ink, run in inks)
        rows.append("; ".join(f"{count} {ink}" for ink, count in runs))
    shown = [SAME if at and row == rows[at - 1] else row for at, row in enumerate(rows)]
    return "\n".join(shown)


def _joined(runs: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the runs of a row; what is blank goes with what stands before it on its ground."""
    found: list[tuple[str, int]] = []
    for ink, count in runs:
        before, length = found[-1] if found else ("", 0)
        lined = "underline" in before or "reverse" in before
        blank = before and ink.startswith("on ") and _ground(ink) == _ground(before)
        if ink == before or (blank and not lined):
            found[-1] = before, length + count
        else:
            found.append((ink, count))
    return [] if [ink for ink, _ in found] == [f"on {GROUND}"] else found


def _ground(ink: str) -> str:
    return ink.rpartition("on ")[2] if ink.startswith("on ") or " on " in ink else GROUND


@cache
def _ink(inks: tuple[str, ...]) -> str:
    """Return one ink's name for its styles in all themes."""
    styles = [Style.parse(each) for each in inks]
    bold, *other = {_attributes(each) for each in styles}
    assert not other, f"the themes differ in more than colours: {inks}"
    ink = _colour([each.color.name if each.color else "" for each in styles])
    ground = _colour([each.bgcolor.name if each.bgcolor else "" for each in styles])
    on = f"on {ground}" if ground and (not ink or ground != GROUND) else ""
    return " ".join(filter(None, (bold, ink, on)))


def _attributes(style: Style) -> str:
    known = ("bold", "dim", "italic", "underline", "reverse", "strike")
    return " ".join(each for each in known if getattr(style, each))


@cache
def _names() -> Mapping[tuple[str, ...], str]:
    themes = [theme.variables() for theme in load_themes().values()]
    found: dict[tuple[str, ...], str] = {}
    for name in themes[0]:
        found.setdefault(tuple(theme[name] for theme in themes), name)
    return found


def _colour(colours: Sequence[str]) -> str:
    return _names().get(tuple(colours), "/".join(colours) if any(colours) else "")


def picture(frame: str, inks: str, theme: str, title: str) -> str:
    """Return a kept frame as SVG, in the colours of a theme."""
    colours = load_themes()[theme].variables()
    rows = frame.split("\n")
    width = max(cell_len(row) for row in rows)
    console = Console(
        width=max(width, int(title.partition("x")[0])), height=len(rows), record=True,
        file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    for row, line in zip(rows, _filled(inks), strict=True):
        console.print(_painted(row, line, theme), no_wrap=True, overflow="crop", crop=True)
    ground, ink = (_rgb(colours[name]) for name in (GROUND, "ink"))
    plain = TerminalTheme(ground, ink, [ink] * 8)
    return console.export_svg(title=title, theme=plain, unique_id="t")


def _filled(inks: str) -> Iterator[str]:
    last = ""
    for row in inks.split("\n"):
        last = last if row == SAME else row
        yield last


def _painted(row: str, inks: str, theme: str) -> Text:
    """Return one row; its inks are counted in cells, in which a wide character takes two."""
    shown, cells = Text(), Text(row + " " * 400)
    at = 0
    for run in filter(None, inks.split("; ")):
        count, _, ink = run.partition(" ")
        begin, used = at, 0
        while used < int(count):
            used += cell_len(cells.plain[at])
            at += 1
        shown.append(cells.plain[begin:at], _style(ink, theme))
    return shown


def _style(ink: str, theme: str) -> Style:
    colours = load_themes()[theme].variables()
    place = THEMES.index(theme)
    words = [
        each.split("/")[place] if "/" in each else colours.get(each, each) for each in ink.split()
    ]
    return Style.parse(" ".join(words))


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue
