"""Cut terminal escape sequences out of one line of text; keep its colours as style words.

Only SGR (colour, weight) has a meaning for the reader. Every other sequence is an order to the
terminal and is dropped whole; one that never ends loses only its introducer, so that it cannot
swallow what stands behind it. Linear in the length of the line: no alternative backtracks.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from cockpit.model.late_regex import late_regex

NAMED: tuple[str | None, ...] = (None, "red", "green", "yellow", "blue", "magenta", "cyan", None)
"""The eight SGR colours. Black and white are the default ink: one of them is always invisible."""

_DARKEST, _LIGHTEST = 0.38, 0.62
_LEVELS = (0, 95, 135, 175, 215, 255)


@lru_cache(maxsize=512)
def legible(red: int, green: int, blue: int) -> str | None:
    """Return ``#rrggbb`` of the same hue in middle lightness; ``None`` for a grey or nonsense."""
    if max(red, green, blue) > 255:
        return None
    hue, light, depth = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    if depth < 0.15:
        return None
    light = min(max(light, _DARKEST), _LIGHTEST)
    return "#" + "".join(
        f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, light, depth)
    )


def indexed(number: int) -> str | None:
    """Return colour ``number`` of the 256-colour table; ``None`` for greys and nonsense."""
    if number < 16:
        return NAMED[number % 8]
    if number > 231:
        return None
    cube = number - 16
    return legible(_LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6])


CURSOR_BACK = "\N{SYMBOL FOR BACKSPACE}"
"""Shown where the text tried to move back over itself: "NaN␈2.3" hides nothing."""

_CSI = r"(?:\x1b\[|\x9b)"
_SEQUENCE = late_regex(
    rf"{_CSI}(?P<sgr>[0-9;:]*+)m"
    rf"|(?P<back>(?:{_CSI}[0-9;]*+D|\x08)++)"
    rf"|{_CSI}[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
    r"|\x1b"
)
_ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_ENDS = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("reverse",),
    29: ("strike",),
}
_LONGEST_SGR = 256


@dataclass(frozen=True)
class Pen:
    """The SGR state: attribute words, and the two colours as names or ``#rrggbb``."""

    words: frozenset[str] = frozenset()
    ink: str | None = None
    paper: str | None = None

    @property
    def style(self) -> str:
        """The style in words that Rich and Textual both read; empty when plain.

        A background becomes reverse video: ink chosen against a background that is not ours
        could hide the text.
        """
        words = self.words | {"reverse"} if self.paper else self.words
        colour = self.paper or self.ink
        return " ".join([*sorted(words), *([colour] if colour else [])])


PLAIN = Pen()


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield ``(text, style)`` for what stands between the escape sequences of one line."""
    pen, start = PLAIN, 0
    for found in _SEQUENCE.finditer(text):
        if found.start() > start:
            yield text[start : found.start()], pen.style
        start = found.end()
        if found["back"]:
            yield CURSOR_BACK, pen.style
        elif found["sgr"] is not None:
            pen = apply_sgr(pen, found["sgr"])
    if start < len(text):
        yield text[start:], pen.style


def apply_sgr(pen: Pen, parameters: str) -> Pen:
    """Return ``pen`` after SGR ``parameters`` (``1;31``, ``38;5;208``, ``38:2::1:2:3``).

    Conceal and blink are ignored, so that hidden text is shown; so is what is not understood.
    """
    if len(parameters) > _LONGEST_SGR:
        return pen
    fields = iter(parameters.split(";"))
    for field in fields:
        code, *subs = (_number(part) for part in field.split(":"))
        if code not in (38, 48):
            pen = _simple(pen, code, subs)
        elif subs:
            colour = _read_colour(iter(subs), with_space=len(subs) >= 5)
            pen = _painted(pen, code, colour)
        else:
            pen = _painted(pen, code, _read_colour(map(_number, fields)))
    return pen


def _number(digits: str) -> int:
    return int(digits) if digits.isdecimal() and len(digits) < 5 else 0


def _simple(pen: Pen, code: int, subs: list[int]) -> Pen:
    if code == 0:
        return PLAIN
    if code == 4 and subs[:1] == [0]:
        code = 24
    if code in _ATTRIBUTES:
        return replace(pen, words=pen.words | {_ATTRIBUTES[code]})
    if code in _ENDS:
        return replace(pen, words=pen.words - set(_ENDS[code]))
    return _named_colour(pen, code)


def _named_colour(pen: Pen, code: int) -> Pen:
    if code in (39, 49):
        return replace(pen, ink=None) if code == 39 else replace(pen, paper=None)
    if code == 90:
        return replace(pen, words=pen.words | {"dim"}, ink=None)
    if 30 <= code <= 37 or 91 <= code <= 97:
        return replace(pen, ink=NAMED[code % 10])
    if 40 <= code <= 47 or 100 <= code <= 107:
        return replace(pen, paper=NAMED[code % 10])
    return pen


def _painted(pen: Pen, code: int, colour: str | None) -> Pen:
    return replace(pen, ink=colour) if code == 38 else replace(pen, paper=colour)


def _read_colour(values: Iterator[int], with_space: bool = False) -> str | None:
    """Take ``5;n`` or ``2;r;g;b`` off ``values``; the colon form may name a colour space first."""
    kind = next(values, 0)
    if kind == 5:
        return indexed(next(values, 0))
    if kind != 2:
        return None
    if with_space:
        next(values, 0)
    return legible(next(values, 0), next(values, 0), next(values, 0))
