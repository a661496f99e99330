"""Keeps text that somebody typed from becoming more than text in the file that it goes into.

A line such as ``## x``, ``---`` or a fence that nobody closes would make a heading, a rule or a
fence of its own and take what follows in. A backslash before it keeps it as it is; the reader
takes that off again. What stands in a fence that is closed is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.text.logbook_scan import Blocks

_LINE: Final = r"#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$"
_OPENS: Final = r"`{3,}|~{3,}|<(?:!|\?|/?(?:details|pre|script|style|textarea)\b)"
_DEEP: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_RISKY: Final = re.compile(rf"(?P<indent>{_DEEP})(?=\\*(?:{_LINE}|{_OPENS}))", re.IGNORECASE)
_MARKS: Final = re.compile(rf"{_DEEP}(?:{_LINE})")
_GUARDED: Final = re.compile(rf"(?P<indent>{_DEEP})\\(?=\\*(?:{_LINE}|{_OPENS}))", re.IGNORECASE)
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_HTML: Final = re.compile(r"[ \t]*<(?P<end>/?)(?P<tag>details)\b", re.IGNORECASE)


def guarded(lines: Sequence[str], first: int = 0) -> list[str]:
    """Return these lines of a file with what those from ``first`` on would become kept off.

    The lines before (a heading, a label) are context. Headings, rules and underlines are
    guarded, and whatever opens a block that does not end in these lines.
    """
    text, done = list(lines), set(range(first))
    for _ in range(len(text) + 1):
        at = _left_open(text)
        if at is None or at < first:
            break
        text[at] = _with(text[at])
        done.add(at)
    done |= _quoted(text)
    return [
        _with(line) if number not in done and _would_mean_more(line) else line
        for number, line in enumerate(text)
    ]


def contained(lines: Sequence[str], level: int) -> list[str]:
    """Return an entry whose lines below the first make no heading of its level or above.

    Deeper ones are its own. Nothing below makes a heading of the line above it.
    """
    blocks, kept = Blocks(), list[str]()
    for number, line in enumerate(lines):
        depth = blocks.take(line)
        under = bool(kept) and bool(kept[-1].strip()) and not blocks.quoted
        opens = 0 < depth <= level or (under and _UNDERLINE.match(line) is not None)
        kept.append(_with(line) if number and opens else line)
    return kept


def closed(lines: Sequence[str]) -> list[str]:
    """Return lines behind which nothing stays open: what would close it is added."""
    blocks, more = Blocks(), list[str]()
    for line in lines:
        blocks.take(line)
    if blocks.open_end:
        more.append(blocks.open_end)
    return [*lines, *more, *["</details>"] * len(_details([*lines, *more]))]


def unguarded(line: str) -> str:
    """Return a line as it was before ``guarded``, without white space at its end."""
    return _GUARDED.sub(lambda found: found["indent"], line, count=1).rstrip()


def _would_mean_more(line: str) -> bool:
    """Tell of a heading, a rule, an underline; or of a line that reads as guarded already."""
    return _MARKS.match(line) is not None or _GUARDED.match(line) is not None


def _with(line: str) -> str:
    """Return the line with one backslash more before what it begins with."""
    found = _RISKY.match(line)
    at = 0 if found is None else found.end("indent")
    return f"{line[:at]}\\{line[at:]}"


def _quoted(lines: Sequence[str]) -> set[int]:
    blocks, quoted = Blocks(), set()
    for number, line in enumerate(lines):
        if not blocks.take(line) and blocks.quoted:
            quoted.add(number)
    return quoted


def _left_open(lines: Sequence[str]) -> int | None:
    """Return which line opens a block that stays open, if one does."""
    blocks = Blocks()
    for line in lines:
        blocks.take(line)
    if blocks.open:
        return blocks.opened_at - 1
    details = _details(lines)
    return details[-1] if details else None


def _details(lines: Sequence[str]) -> list[int]:
    """Return the lines that open a fold (``<details>``) which these lines do not close."""
    blocks, opened = Blocks(), list[int]()
    for number, line in enumerate(lines):
        blocks.take(line)
        tag = None if blocks.quoted else _HTML.match(line)
        if tag is not None and "</details" not in line.lower():
            opened.append(number)
        elif "</details" in line.lower() and opened:
            opened.pop()
    return opened
