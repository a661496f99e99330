"""The little of Markdown that decides what a line of a logbook is: fences, comments, lists.

After CommonMark: a fence or a heading inside a list item belongs to that item and ends with it,
so that what a person quotes in an item can never swallow the entries below.
"""

from __future__ import annotations

import re
from typing import Final

_RAW: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_HEADING: Final = re.compile(r"(#{1,6})(?=[ \t]|$)")
_FENCE: Final = re.compile(r"(?P<mark>`{3,})[^`]*$|(?P<wave>~{3,})")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?P<gap>[ \t]+|$)")
_ITEM_STARTS: Final = frozenset("-*+0123456789")
_BLOCK_STARTS: Final = frozenset("#`~<")
_HTML_BLOCKS: Final = (
    (re.compile(r"<!--"), "-->"),
    (re.compile(r"<pre(?=[\s>]|$)", re.IGNORECASE), "</pre>"),
    (re.compile(r"<script(?=[\s>]|$)", re.IGNORECASE), "</script>"),
    (re.compile(r"<style(?=[\s>]|$)", re.IGNORECASE), "</style>"),
    (re.compile(r"<textarea(?=[\s>]|$)", re.IGNORECASE), "</textarea>"),
    (re.compile(r"<\?"), "?>"),
    (re.compile(r"<!\[CDATA\["), "]]>"),
)
"""What HTML quotes up to an end of its own, blank lines or not (CommonMark's kinds 1 to 5)."""
_DEEPEST: Final = 3
"""Columns by which a block may be indented; more is a continuation or indented code."""


def raw_lines(text: str) -> list[str]:
    """Return the lines with their ends (LF, CRLF or CR, as Markdown counts them)."""
    return _RAW.findall(text)


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends."""
    return [line.rstrip("\r\n") for line in _RAW.findall(text)]


def indent_of(line: str) -> int:
    """Return the columns of white space before a line's text; a tab goes to the next fourth."""
    spaces = len(line) - len(line.lstrip(" "))
    if line[spaces : spaces + 1] != "\t":
        return spaces
    columns = 0
    for char in line:
        if char == "\t":
            columns += 4 - columns % 4
        elif char == " ":
            columns += 1
        else:
            break
    return columns


def without_indent(line: str, columns: int) -> str:
    """Return ``line`` without at most ``columns`` columns of white space before its text."""
    taken = index = 0
    while taken < columns and index < len(line) and line[index] in " \t":
        taken += 4 - taken % 4 if line[index] == "\t" else 1
        index += 1
    return line[index:]


class Blocks:
    """Follows fences, comments and list items from line to line.

    ``opened_at`` is which of the lines ``taken`` opened the newest fence or comment.
    """

    def __init__(self) -> None:
        self.quoted = False
        self.taken = 0
        self.opened_at = 0
        self._end = ""
        self._inside = 0
        self._items: list[int] = []

    @property
    def open_end(self) -> str:
        """The line that would end the fence or comment that is open now; else empty.

        One that is open in a list item ends with the item and needs no line.
        """
        return "" if self._inside else self._end

    @property
    def open(self) -> bool:
        """True while a fence, a comment or another quoted block is open, in an item too."""
        return bool(self._end)

    def take(self, text: str) -> int:
        """Read the next line; return its heading level (0: none). ``quoted`` tells the rest."""
        self.taken += 1
        plain = text.lstrip(" \t")
        if self._end and self._still_quoted(text, plain):
            self.quoted = True
            return 0
        self.quoted = False
        if not plain:
            return 0
        if len(plain) < len(text):
            return self._block(plain, indent_of(text))
        if text[0] in "-*+" and text[1:2] == " " and text[2:3].isalpha():  # most lines are such
            self._items = [2]
            return 0
        if text[0].isalpha():
            self._items = []
            return 0
        return self._block(plain, 0)

    def _still_quoted(self, text: str, plain: str) -> bool:
        """Return whether the line is inside what is open, and close that where it ends."""
        if self._inside and plain and indent_of(text) < self._inside:
            self._end = ""
            return False
        if self._end[0] not in "`~":
            ends = self._end in plain.lower()
        else:
            mark = plain.rstrip()
            fence = mark.startswith(self._end) and not mark.strip(self._end[0])
            ends = fence and indent_of(text) - self._inside <= _DEEPEST
        if ends:
            self._end = ""
        return True

    def _block(self, plain: str, indent: int) -> int:
        while self._items and indent < self._items[-1]:
            self._items.pop()
        inside = self._items[-1] if self._items else 0
        while plain[:1] in _ITEM_STARTS and indent - inside <= _DEEPEST:
            item = _ITEM.match(plain)
            if item is None:
                break
            gap = len(item.group("gap"))
            inside = indent = indent + item.end() - (gap - 1 if gap > 4 else 0) + (not gap)
            self._items.append(inside)
            plain = plain[item.end() :]
        if plain[:1] not in _BLOCK_STARTS or indent - inside > _DEEPEST:
            return 0
        self._open(plain, inside)
        heading = None if inside or self._end else _HEADING.match(plain)
        return 0 if heading is None else len(heading.group(1))

    def _open(self, plain: str, inside: int) -> None:
        fence = _FENCE.match(plain)
        if fence is not None:
            self._end = fence[fence.lastgroup or 0]
        elif plain[0] == "<":
            end = next((end for start, end in _HTML_BLOCKS if start.match(plain)), "")
            self._end = "" if end and end in plain[2:].lower() else end
        if self._end:
            self._inside, self.quoted, self.opened_at = inside, True, self.taken


def conflict_line(data: bytes) -> int | None:
    """Return the line (from 1) at which a conflict that nobody has resolved begins, if one does."""
    begun = None
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.startswith(b"<<<<<<< "):
            begun = number
        elif line.startswith(b">>>>>>> ") and begun is not None:
            return begun
    return None
