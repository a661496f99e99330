"""One line of a log as it is painted: mark, dimmed stamp, what it says. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.loglevel import Level, level_of
from widgets.painting.line import DIM, text

_STAMP: Final = re.compile(
    r"\[?(?:(?P<level>[IWEFDC])(?P<glog>\d{4}(?:\d{4})?)|(?P<iso>\d{4}[-/]\d\d[-/]\d\d))[T ]"
    r" {0,3}(?P<at>\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(?P<zone>Z|[+-]\d\d:?\d\d)?\]?"
    r"(?P<thread> +\d{1,9}(?= ))?[ \-:]{0,3}(?=\S)"
)
LEVEL_STYLE: Final = {"W": "$attention", "E": "$critical"}


class Dressed(NamedTuple):
    """A line's level, day and time as it writes them, and where what it says begins."""

    level: Level
    day: str = ""
    at: str = ""
    says: int = 0


def dressed(plain: str) -> Dressed:
    """Return what the beginning of a line tells; only a stamp at its very start is taken off."""
    found = _STAMP.match(plain)
    level = level_of(plain)
    if found is None:
        return Dressed(level)
    day = (found["glog"] or found["iso"]).replace("/", "-").replace("-", "")[-4:]
    return Dressed(level, f"{day[:2]}-{day[2:]}", found["at"], found.end())


def paint_line(line: Content, former_day: str, keep_from: int | None) -> Content:
    """Return a line, its stamp as a dim time of day; the day only where it changes.

    ``keep_from``: where the first match of a search stands; what is matched is not shortened.
    """
    told = dressed(line.plain)
    if not told.at or (keep_from is not None and keep_from < told.says):
        return line
    day = f"{told.day} " if told.day != former_day and former_day else ""
    return text((f"{day}{told.at} ", DIM), line[told.says :])


def gutter(level: Level, quote: str, bookmarked: bool) -> Content:
    """Return the three cells before a line: quoted by an alert (its style), or kept; the level."""
    mark = ("▌", quote) if quote else ("⚑", "$accent") if bookmarked else (" ", "")
    style = LEVEL_STYLE.get(level, "")
    return text(mark, (f"{level} ", f"bold {style}") if style else "  ")
