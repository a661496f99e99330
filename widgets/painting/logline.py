"""A log line as it is painted, and the matches of a search marked in it, within a CPU limit."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from types import FrameType
from typing import Final, NamedTuple, TypeVar

from textual.content import Content

from cockpit.model.logtext import Level, level_of
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
    line_parts = dressed(line.plain)
    if not line_parts.at or (keep_from is not None and keep_from < line_parts.says):
        return line
    day = f"{line_parts.day} " if line_parts.day != former_day and former_day else ""
    return text((f"{day}{line_parts.at} ", DIM), line[line_parts.says :])


def gutter(level: Level, quote: str, bookmarked: bool) -> Content:
    """Return the three cells before a line: quoted by an alert (its style), or kept; the level."""
    mark = ("▌", quote) if quote else ("⚑", "$accent") if bookmarked else (" ", "")
    style = LEVEL_STYLE.get(level, "")
    return text(mark, (f"{level} ", f"bold {style}") if style else "  ")


T = TypeVar("T")


class _OverError(Exception):
    """The time is over."""


class _Clock:
    """The one timer of CPU time there is; when nobody is at work it rings unheard."""

    at_work = False
    heard = False

    def ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.at_work:
            self.at_work = False
            raise _OverError

    def listen(self) -> None:
        if not self.heard:
            signal.signal(signal.SIGVTALRM, self.ring)
            self.heard = True


_CLOCK = _Clock()


def briefly(work: Callable[[], T], seconds: float) -> T | None:
    """Return what ``work`` returns, or ``None`` once it has taken ``seconds`` of CPU time.

    Only on the main thread work can be stopped; elsewhere it is not begun.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    _CLOCK.listen()
    try:
        _CLOCK.at_work = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        return work()
    except _OverError:
        return None
    finally:
        _CLOCK.at_work = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


HIT: Final = "bold on $hit"
MARK_WITHIN: Final = 0.03
"""Seconds a search in one line may take; after that its matches are no longer marked."""
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
