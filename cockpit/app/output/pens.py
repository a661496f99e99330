"""How a cell looks, and the shortest sequence (SGR) from one look to another."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

_OFF: Final = {1: 22, 2: 22, 3: 23, 4: 24, 5: 25, 6: 25, 7: 27, 8: 28, 9: 29,
               21: 24, 51: 54, 52: 54, 53: 55}  # fmt: skip
"""What ends each mark; some end two (bold and dim)."""
_ON_BLANKS: Final = frozenset({4, 5, 6, 7, 9, 21, 51, 52, 53})
"""Marks that can be seen where no letter stands."""
_COLOUR_PARTS: Final = {"5": 3, "2": 5}
"""How many numbers a colour of the palette (``38;5;n``) or a true one (``38;2;r;g;b``) has."""


class Pen(NamedTuple):
    """What a terminal writes with: colours as SGR parameters (``""``: its own), marks, a link."""

    fg: str = ""
    bg: str = ""
    marks: tuple[int, ...] = ()
    link: str = ""
    """Parameters and address of a hyperlink (``id=1;https://…``), as OSC 8 takes them."""


PLAIN: Final = Pen()


def pen_of(parameters: str, link: str = "") -> Pen:
    """Return the pen that SGR parameters (``1;38;2;1;2;3``) make of a plain one."""
    fg = bg = ""
    marks: set[int] = set()
    numbers = parameters.split(";") if parameters else []
    while numbers:
        length = _COLOUR_PARTS.get("".join(numbers[1:2]), 1) if numbers[0] in ("38", "48") else 1
        part, numbers = numbers[:length], numbers[length:]
        code = int(part[0] or 0)
        if code in _OFF:
            marks.add(code)
        elif 30 <= code <= 38 or 90 <= code <= 97:
            fg = ";".join(part)
        elif 40 <= code <= 48 or 100 <= code <= 107:
            bg = ";".join(part)
    return Pen(fg, bg, tuple(sorted(marks)), link)


@lru_cache(maxsize=4096)
def on_blank(pen: Pen) -> Pen:
    """Return the part of a pen that can be seen in an empty cell."""
    marks = tuple(each for each in pen.marks if each in _ON_BLANKS)
    return Pen(pen.fg if marks else "", pen.bg, marks, pen.link)


@lru_cache(maxsize=8192)
def over_blank(pen: Pen, needed: Pen) -> Pen:
    """Return a pen that leaves an empty cell as ``needed`` would, as like ``pen`` as can be."""
    unseen = {each for each in pen.marks if each not in _ON_BLANKS}
    marks = tuple(sorted(unseen | set(needed.marks)))
    return Pen(needed.fg if needed.marks else pen.fg, needed.bg, marks, needed.link)


@lru_cache(maxsize=8192)
def change(former: Pen | None, to: Pen) -> str:
    """Return what makes a terminal write with ``to``; ``former`` may be unknown (``None``)."""
    anew = _sgr(["0", *_all_of(to)])
    sgr = anew if former is None else min(anew, _sgr(_differing(former, to)), key=len)
    if to.link == ("" if former is None else former.link):
        return sgr
    return f"\x1b]8;{to.link or ';'}\x1b\\{sgr}"


def _all_of(pen: Pen) -> list[str]:
    return [*map(str, pen.marks), *filter(None, (pen.fg, pen.bg))]


def _differing(former: Pen, to: Pen) -> list[str]:
    lost = {_OFF[each] for each in former.marks if each not in to.marks}
    kept = {each for each in former.marks if each in to.marks and _OFF[each] not in lost}
    codes = [*map(str, sorted(lost)), *(str(each) for each in to.marks if each not in kept)]
    if former.fg != to.fg:
        codes.append(to.fg or "39")
    if former.bg != to.bg:
        codes.append(to.bg or "49")
    return codes


def _sgr(codes: list[str]) -> str:
    if not codes:
        return ""
    return "\x1b[m" if codes == ["0"] else f"\x1b[{';'.join(codes)}m"
