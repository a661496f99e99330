"""Painted lines as files that stand for themselves: text, and a picture in SVG. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from textual.content import Content

CELL: Final = (8.4, 18.0)
"""Width and height of one cell of the picture, in pixels."""
EDGE: Final = 16.0
_FONT: Final = "'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"


def as_text(lines: Sequence[Content]) -> str:
    """Return the lines as they read, without colours."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def as_svg(lines: Sequence[Content], width: int, colours: Mapping[str, str]) -> str:
    """Return a picture of the lines, ``width`` cells wide; it loads nothing.

    ``colours`` are the theme's, by name (``ink``, ``background``, ``accent``) as ``#rrggbb``.
    """
    across, down = width * CELL[0] + 2 * EDGE, len(lines) * CELL[1] + 2 * EDGE
    ink, ground = colours["ink"], colours["background"]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:g}" height="{down:g}" '
        f'viewBox="0 0 {across:g} {down:g}">\n'
        f'<rect width="100%" height="100%" fill="{ground}"/>\n'
        f'<g font-family="{_FONT}" font-size="14" fill="{ink}" xml:space="preserve">\n'
    )
    rows = (_row(line, place, colours) for place, line in enumerate(lines))
    return f"{head}{''.join(rows)}</g>\n</svg>\n"


def _row(line: Content, place: int, colours: Mapping[str, str]) -> str:
    """Return a line's pieces of one style, each at its own cell: no font can move what follows."""
    ends = {0, len(line.plain)} | {end for span in line.spans for end in (span.start, span.end)}
    y = EDGE + (place + 0.75) * CELL[1]
    pieces = []
    for start, end in pairwise(sorted(ends)):
        said = line.plain[start:end]
        if not said.strip():
            continue
        styles = [str(s.style) for s in line.spans if s.start <= start and end <= s.end]
        x = EDGE + Content(line.plain[:start]).cell_length * CELL[0]
        long = Content(said).cell_length * CELL[0]
        look = _look(" ".join(styles).split(), colours)
        place_of = f'x="{x:g}" y="{y:g}" textLength="{long:g}" lengthAdjust="spacingAndGlyphs"'
        pieces.append(f"<text {place_of}{look}>{escape(said)}</text>\n")
    return "".join(pieces)


def _look(words: Sequence[str], colours: Mapping[str, str]) -> str:
    found = [colours[word[1:]] for word in words if word[1:] in colours and word[0] == "$"]
    weight = ' font-weight="bold"' if "bold" in words else ""
    return (f' fill="{found[-1]}"' if found else "") + weight
