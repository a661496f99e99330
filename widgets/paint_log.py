"""A page of a log: foreign text with its colours, the match marked, nothing parsed. Pure."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.safetext import SafeText
from widgets.line import foreign

HIT: Final = "bold on $hit"


def paint_log_line(line: SafeText, width: int, left: int, term: str, chosen: bool) -> Content:
    """Return one line from column ``left`` on, cut to ``width``, matches of ``term`` marked."""
    shown = marked(foreign(line), term)
    if left:
        shown = shown[min(left, len(shown.plain)) :]
    shown = shown.truncate(width, ellipsis=True, pad=True)
    return shown.stylize_before("on $cursor") if chosen else shown


def marked(line: Content, term: str) -> Content:
    """Return ``line`` with every occurrence of ``term`` marked, whatever its case."""
    for start in places(line.plain, term):
        line = line.stylize(HIT, start, start + len(term))
    return line


def places(plain: str, term: str) -> list[int]:
    """Return where ``term`` stands in ``plain``, ASCII case ignored, as the search does."""
    found: list[int] = []
    hay, needle = plain.lower(), term.lower()
    if not needle or len(hay) != len(plain):
        return found
    at = hay.find(needle)
    while at >= 0:
        found.append(at)
        at = hay.find(needle, at + len(needle))
    return found
