"""Outside text made safe to show: escapes and control characters go, the rest can be drawn."""

from __future__ import annotations

import colorsys
import locale
import os
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import AnyStr, Final

from cockpit.model.base import SafeText, Span
from cockpit.model.late_regex import late_regex
from cockpit.model.wording import to_ascii

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


def styled_parts(text: str) -> Iterator[tuple[str, str]]:
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


LINE_LIMIT = 4000
"""Characters of one line that are kept (more ends in "…")."""

_TAB = 8
_MARKS_PER_LETTER = 3
AS_IT_IS: Final = (
    " -~\u00ae-\u02ff\u0400-\u0482\u2010-\u2027\u2190-\u2426\u2500-\u27bf\u3001-\u3011"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff5e"
)
"""Ranges of characters that are shown as they are, so that runs of them are taken at once."""
_RUNS = late_regex(rf"(?s:(?P<plain>[{AS_IT_IS}]+)|.)")
_STATES_TRIED = 1000
_ELLIPSIS = "…"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_DRAWN = late_regex("[ -~\u2022\u2500-\u259f]*")
"""ASCII, bullets, lines and blocks: what progress bars are drawn with."""
_INVISIBLE = late_regex(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Default-ignorable characters whose category does not already say so."""


def safe_line(raw: bytes | str, limit: int = LINE_LIMIT) -> SafeText:
    r"""Return one line as displayable text with its colours beside it; never raises.

    ``raw`` may end in a line break and may hold ``\r`` states, of which the last that shows
    something is kept. At most ``limit`` characters (at least 1) come back.
    """
    if isinstance(raw, str) and len(raw) <= limit and _is_plain(raw):
        return SafeText(plain=raw)
    limit = max(1, limit)
    first: SafeText | None = None
    room = _room(limit)
    states = (
        _states(raw, b"\r", b"\n", room)
        if isinstance(raw, bytes)
        else _states(raw, "\r", "\n", room)
    )
    for state, cut in states:
        line = _build(state, limit, cut)
        if line.plain.strip():
            return line
        first = first or line
    return first or SafeText(plain="")


def plain_text(text: str) -> str:
    """Return the text of ``safe_line``, at once where it needs no change."""
    return text if len(text) <= LINE_LIMIT and _is_plain(text) else safe_line(text).plain


def _is_plain(text: str) -> bool:
    if text.isascii():
        return text.isprintable()
    return _DRAWN.fullmatch(text) is not None


def safe_lines(raw: bytes | str, limit: int = LINE_LIMIT) -> tuple[SafeText, ...]:
    r"""Return every line of ``raw`` (split at ``\n``; a last line break adds no line)."""
    lines = _decode(raw).split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(safe_line(line, limit) for line in lines)


def clean(raw: object, limit: int = 500) -> str:
    r"""Return anything as one line of plain safe text: names, messages, JSON values.

    Unlike a log line it keeps all of itself: ``\r`` and line breaks become spaces. ``None`` is
    the empty string.
    """
    if raw is None:
        return ""
    text = _decode(raw) if isinstance(raw, bytes) else str(raw)
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text.strip()
    limit = max(1, limit)
    text = text.strip()
    room = _room(limit)
    flat = text[:room].replace("\r\n", " ").replace("\r", " ")
    text = _build(flat, limit, cut=len(text) > room).plain.strip()
    while text and _shown(text[0]) is None:  # a mark that stood on a blank
        text = text[1:].lstrip()
    return text


def _room(limit: int) -> int:
    """How much of a raw line is worth reading for ``limit`` characters of it."""
    return max(16_384, 8 * limit)


def _decode(raw: bytes | str) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw


def _states(raw: AnyStr, cr: AnyStr, lf: AnyStr, room: int) -> Iterator[tuple[str, bool]]:
    """Yield what stands between carriage returns, newest first, and whether it was cut."""
    raw = raw.rstrip(cr + lf)
    if lf in raw:
        raw = raw.replace(cr + lf, lf)
    end = len(raw)
    for _ in range(_STATES_TRIED):
        start = raw.rfind(cr, 0, end) + 1
        yield _decode(raw[start : min(end, start + room)]), end - start > room
        if start == 0:
            return
        end = start - 1


def _build(text: str, limit: int, cut: bool) -> SafeText:
    line = _LineBuilder()
    for piece, style in ((text, ""),) if text.isprintable() else styled_parts(text):
        line.add(piece, style)
        if line.length > limit:
            break
    return line.finish(limit, cut)


class _LineBuilder:
    """A line under construction: what is shown so far, and its colour spans."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._spans: list[Span] = []
        self._marks = _MARKS_PER_LETTER  # a mark with no letter before it is not shown

    def add(self, piece: str, style: str) -> None:
        start = self.length
        if piece.isascii() and piece.isprintable():
            self._append(piece)
        else:
            for found in _RUNS.finditer(piece):
                if found["plain"]:
                    self._append(found["plain"])
                else:
                    self._put_char(found[0])
        if style and self.length > start:
            last = self._spans[-1] if self._spans else None
            if last is not None and last.end == start and last.style == style:
                self._spans[-1] = Span(last.start, self.length, style)
            else:
                self._spans.append(Span(start, self.length, style))

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)
        self._marks = 0

    def _put_char(self, char: str) -> None:
        shown = " " * (_TAB - self.length % _TAB) if char == "\t" else _shown(char)
        if shown:
            self._append(shown)
        elif shown is None and self._marks < _MARKS_PER_LETTER:
            self._parts.append(char)
            self.length += 1
            self._marks += 1

    def finish(self, limit: int, cut: bool) -> SafeText:
        plain = "".join(self._parts)
        if not cut and len(plain) <= limit:
            return SafeText(plain=plain, spans=tuple(self._spans))
        plain = plain[: limit - 1] + _ELLIPSIS
        inside = (span for span in self._spans if span.start < len(plain))
        spans = (Span(span.start, min(span.end, len(plain)), span.style) for span in inside)
        return SafeText(plain=plain, spans=tuple(spans))


@lru_cache(maxsize=8192)
def _shown(char: str) -> str | None:
    """Return what is shown for ``char``; ``None`` for a mark that sits on the letter before."""
    category = unicodedata.category(char)
    if char in "\n\v\f\x85" or category.startswith("Z"):
        return " "
    if category in ("Cc", "Cf") or _INVISIBLE.match(char):
        return ""
    if category.startswith("C"):
        return _REPLACEMENT
    if category.startswith("M") or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff":
        return None
    return char


_CONSOLE_TWINS: Final = str.maketrans("╭╮╰╯┏┓┗┛┍┃━", "┌┐└┘┌┐└┘┌│─")
_CONSOLE: Final = frozenset("─│┌┐└┘├┤┬┴┼█■▲→←↑↓·•±")
"""What the kernel's own font and every usual console font have beside ASCII and Latin-1."""
_VARIABLES: Final = ("LC_ALL", "LC_CTYPE", "LANG")
_LOST: Final = "?"


class Charset(Enum):
    """How much a terminal can show."""

    UNICODE = "unicode"
    CONSOLE = "console"
    ASCII = "ascii"


def charset_of(variables: Mapping[str, str], codeset: str = "") -> Charset:
    """Return what the terminal can show; ``codeset`` is the C library's word for the locale.

    The name of the locale decides where it names an encoding: it tells what the terminal was set
    up for, also on a machine on which that locale is not installed.
    """
    named = next((value for name in _VARIABLES if (value := variables.get(name))), "")
    language, _, coding = named.partition("@")[0].partition(".")
    if language in ("", "C", "POSIX") and not coding:
        return Charset.ASCII
    if (coding or codeset).lower().replace("-", "").replace("_", "") != "utf8":
        return Charset.ASCII
    return Charset.CONSOLE if variables.get("TERM") == "linux" else Charset.UNICODE


def terminal_charset() -> Charset:
    """Return what the terminal of this process can show."""
    return charset_of(given_variables(), locale.nl_langinfo(locale.CODESET))


def given_variables() -> dict[str, str]:
    """Return the variables that the process was started with.

    In the locale C the interpreter sets ``LC_CTYPE=C.UTF-8`` for itself, which the terminal knows
    nothing of: the kernel still has the variables as they were given.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    pairs = (each.partition(b"=") for each in raw.split(b"\0") if each)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def drawn(text: str, charset: Charset) -> str:
    """Return ``text`` with what the terminal cannot show replaced, cell by cell."""
    if charset is Charset.UNICODE or text.isascii():
        return text
    if charset is Charset.CONSOLE:
        return "".join(map(_on_console, text.translate(_CONSOLE_TWINS)))
    return "".join(map(_in_ascii, text))


@lru_cache(maxsize=4096)
def _on_console(letter: str) -> str:
    latin = letter <= "\xff" and letter.isprintable() and letter == to_ascii(letter)
    return letter if letter in _CONSOLE or latin else _in_ascii(letter)


@lru_cache(maxsize=4096)
def _in_ascii(letter: str) -> str:
    """Return a character's twin, the letter below its accent, or as many ``?`` as it has cells."""
    if letter.isascii():
        return letter
    twin = to_ascii(letter)
    if twin.isascii():
        return twin
    base = unicodedata.normalize("NFKD", letter)
    cells = _cells(letter)
    plain = "".join(each for each in base if each.isascii() and each.isprintable())
    return plain if cells and len(plain) == cells else _LOST * cells


def _cells(letter: str) -> int:
    """Return how many cells a character takes: none for what joins the one before it."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
