"""Where a search matches in a line that is shown, marked there."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Final

from textual.content import Content

from widgets.base.briefly import briefly

HIT: Final = "bold on $hit"
MARK_WITHIN: Final = 0.03
"""Seconds in which an expression is to be found in a line, else it is marked no more."""
_SLOW: Final[set[str]] = set()


def marked(line: Content, term: str) -> Content:
    """Return ``line`` with every occurrence of ``term`` marked, whatever its case."""
    for start, end in places(line.plain, term):
        line = line.stylize(HIT, start, end)
    return line


class Regex(str):
    """A term that is a regular expression."""

    __slots__ = ()


def term_of(typed: str) -> str:
    """Return what was typed to be searched for: ``/…/`` is a regular expression."""
    slashes = len(typed) > 2 and typed[0] == typed[-1] == "/"
    return Regex(typed[1:-1]) if slashes else typed


def places(plain: str, term: str) -> list[tuple[int, int]]:
    """Return where ``term`` stands in ``plain``, ASCII case ignored, as the search does."""
    pattern = _pattern(term, isinstance(term, Regex)) if term else None
    if pattern is None or term in _SLOW:
        return []
    if not isinstance(term, Regex):
        return _spans(pattern, plain)
    found = briefly(partial(_spans, pattern, plain), MARK_WITHIN)
    if found is None:
        _SLOW.add(term)
    return found or []


def _spans(pattern: re.Pattern[str], plain: str) -> list[tuple[int, int]]:
    found = pattern.finditer(plain)
    return [each.span() for each in found if each.end() > each.start()]


@lru_cache(maxsize=16)
def _pattern(term: str, regex: bool) -> re.Pattern[str] | None:
    try:
        return re.compile(term if regex else re.escape(term), re.IGNORECASE | re.ASCII)
    except re.error:  # the search says so
        return None
