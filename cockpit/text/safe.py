r"""The boundary: turn anything from outside into text that is safe to show.

After this no control character, no bidi override, no invisible character and no escape
sequence is left, and nothing is ever read as markup. History cannot be rewritten by cursor
moves: what was overwritten stays readable. Only ``\r`` is taken at its word, since that is
how progress bars work: the last state that is not empty is the line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import AnyStr

from cockpit.model.base import SafeText, Span
from cockpit.model.late_regex import late_regex
from cockpit.text.ansi import pieces

LINE_LIMIT = 4000
"""Characters of one line that are kept (more ends in "…")."""

_TAB = 8
_MARKS_PER_LETTER = 3
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
    line = _Line()
    for piece, style in ((text, ""),) if text.isprintable() else pieces(text):
        line.add(piece, style)
        if line.length > limit:
            break
    return line.finish(limit, cut)


class _Line:
    """A line under construction: what is shown so far, and its colour spans."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._spans: list[Span] = []
        self._marks = _MARKS_PER_LETTER  # a mark with no letter before it is not shown

    def add(self, piece: str, style: str) -> None:
        start = self.length
        if piece.isascii() and piece.isprintable():
            self._put(piece)
        else:
            for char in piece:
                self._put_char(char)
        if style and self.length > start:
            self._colour(start, style)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)
        self._marks = 0

    def _put_char(self, char: str) -> None:
        shown = " " * (_TAB - self.length % _TAB) if char == "\t" else _shown(char)
        if shown:
            self._put(shown)
        elif shown is None and self._marks < _MARKS_PER_LETTER:
            self._parts.append(char)
            self.length += 1
            self._marks += 1

    def _colour(self, start: int, style: str) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and last.end == start and last.style == style:
            self._spans[-1] = Span(last.start, self.length, style)
        else:
            self._spans.append(Span(start, self.length, style))

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
