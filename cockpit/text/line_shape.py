"""The shape of a line: what is left when digits, padding and the filling of a bar are one each.

A trainer's lines differ in little else. What a line says is decided on its shape alone, so it
is found once for all lines of a shape; then only their figures are read. ``pattern_of`` turns a
shape into an expression that matches lines of that shape only.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex

_FILLING: Final = " 0-9#=>.\\-\u2500-\u259f\u25a0\u25a1"
_FIGURE: Final = "[0-9]{1,3}(?:,[0-9]{3})+"
_PARTS: Final = {
    "figure": ("0", rf"(?<![.0-9]){_FIGURE}(?![0-9])|[0-9]+"),
    "gap": ("   ", r"\ {3,}"),
    "filling": ("||", rf"(?<=%)\|[{_FILLING}]*\|(?=\s*[0-9?])"),
    "line": ("━━", "[━╸╺]{2,}"),
    "arrow": ("[=]", r"\[(?=[=>.])=*>?\.*\]"),
    "colour": ("", r"\x1b\[[0-9;:]{0,64}m"),
}
"""What stands in a shape for each such part, and what it is in a line."""
_ONE: Final = {name: one for name, (one, _) in _PARTS.items()}
_TOKEN: Final = late_regex("|".join(f"(?P<{name}>{part})" for name, (_, part) in _PARTS.items()))
_PLAIN: Final = late_regex("[\n -~\u2022\u2500-\u259f]*")

Span = tuple[int, int]
"""From where to where something stands in a shape."""


class Shape(NamedTuple):
    """A line's ``shape``, and how to come from a place in it to the line's own."""

    line: str
    shape: str
    ends: Sequence[int]
    """Where in the shape each shortened part ends, ascending."""
    moved: Sequence[int]
    """By how much what follows each of them stands further on in the line."""

    def cut(self, span: Span) -> str:
        """Return what the line has where the shape has ``span``."""
        start, end = span
        return self.line[self._place(start) : self._place(end)]

    def _place(self, at: int) -> int:
        before = bisect_right(self.ends, at)
        return at + (self.moved[before - 1] if before else 0)


def shape_of(line: str) -> Shape:
    """Return the shape of a line of safe text, or of a block of them."""
    parts, ends, moved = list[str](), list[int](), list[int]()
    at = length = 0
    for found in _TOKEN.finditer(line):
        start, end = found.span()
        one = _ONE[found.lastgroup or ""]
        parts += line[at:start], one
        length += start - at + len(one)
        if end - length != (moved[-1] if moved else 0):
            ends.append(length)
            moved.append(end - length)
        at = end
    return Shape(line, "".join((*parts, line[at:])), ends, moved)


def pattern_of(line: str, shape: str, spans: Sequence[Span]) -> str | None:
    """Return what matches lines of ``shape`` alone, coloured as ``line`` is; ``None`` if unsure.

    It has a group for each of ``spans``, which are ascending and apart. A line that is no safe
    text, but for its colours (and a block's line breaks), has no pattern; nor where two figures
    with nothing but a comma between them could be one.
    """
    units = list(_units(line))
    literal = "".join(part for part, pattern in units if not pattern)
    if "0,0" in shape or _PLAIN.fullmatch(literal) is None:
        return None
    apart = all(one[1] <= other[0] for one, other in pairwise(spans))
    if not apart or "".join(part for part, _ in units) != shape:
        return None
    return _written(units, spans)


def _written(units: Sequence[tuple[str, str]], spans: Sequence[Span]) -> str | None:
    """Return the units' expression; ``None`` where a colour stands within one of ``spans``."""
    opens, closes = {start for start, _ in spans}, {end for _, end in spans}
    written, at = list[str](), 0
    for part, pattern in units:
        if not part and any(start < at < end for start, end in spans):
            return None
        for step, piece in enumerate([pattern] if pattern else map(re.escape, part)):
            if at + step in closes:
                closes.remove(at + step)
                written.append(")")
            written += "(" * (part != "" and at + step in opens), piece
        at += len(part)
    return "".join((*written, ")" * (at in closes)))


def _units(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line as they stand in its shape, and what matches them if not they."""
    at = 0
    for found in _TOKEN.finditer(line):
        if at < found.start():
            yield line[at : found.start()], ""
        name = found.lastgroup or ""
        grouped = name == "figure" and "," in found[0]
        yield _ONE[name], f"(?:{_FIGURE if grouped else _ALONE[name]})"
        at = found.end()
    if at < len(line):
        yield line[at:], ""


_ALONE: Final = {
    **{name: part for name, (_, part) in _PARTS.items()},
    "figure": "[0-9]+",
    "filling": rf"\|[{_FILLING}]*\|",
}
