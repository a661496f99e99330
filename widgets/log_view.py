"""A window on a log of any size: a buffer of lines around a cursor; more is asked for when near.

It reads nothing: the screen answers ``Wanted`` messages with pages.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from textual.content import Content
from textual.message import Message

from cockpit.model.logtext import LogPage
from cockpit.model.safetext import SafeText
from cockpit.model.wording import size
from widgets.base.briefly import briefly
from widgets.base.painted import Filter, Painted
from widgets.painting.line import ACCENT, DIM, STRONG, foreign, frame, text

MOST: Final = 4000
"""Lines kept in the buffer."""
SIDE_STEP: Final = 20
HIT: Final = "bold on $hit"
BEYOND: Final = 1 << 62
"""An offset after every end."""
MARK_WITHIN: Final = 0.03
"""Seconds in which an expression is to be found in a line, else it is marked no more."""
_SLOW: Final[set[str]] = set()


class LogView(Painted):
    """Follows the end, or holds still at a cursor."""

    @dataclass
    class Wanted(Message):
        """Lines that end before ``offset`` (``back``), or that start at it."""

        offset: int
        back: bool

    def __init__(self) -> None:
        super().__init__()
        self.following = True
        self.placed = True
        """False while it is not known where in the file the lines stand."""
        self.term = ""
        self._status = ""
        self._lines_held: list[SafeText] = []
        self._offsets: list[int] = []
        self._start = self._end = self._bytes = 0
        self._cursor = self._top = self._left = 0
        self._asked: LogView.Wanted | None = None

    @property
    def room(self) -> int:
        """How many lines are in sight."""
        return max(1, self.size.height - 2)

    @property
    def place(self) -> tuple[int, int]:
        """The byte offsets of the cursor's line and of the one after it; else beyond the end."""
        if not self.placed:
            return BEYOND, BEYOND
        if not self._offsets:
            return 0, 0
        after = self._cursor + 1
        return self._offsets[self._cursor], (
            self._offsets[after] if after < len(self._offsets) else self._end
        )

    def show_tail(self, page: LogPage, *, placed: bool = True) -> None:
        """Show the end of the file; what is held before it stays.

        ``placed`` is False of lines of which only the order is known.
        """
        known, self.placed = self.placed, placed
        at = bisect_left(self._offsets, page.start)
        held = self._lines_held[at:-1]
        if known and self._start <= page.start and held and held == list(page.lines[: len(held)]):
            self._lines_held[at:], self._offsets[at:] = page.lines, page.offsets
            self._end, self._bytes = page.end, page.size
            self._drop_first(max(0, len(self._offsets) - MOST))
        else:
            self._take(page)
        self._cursor = max(0, len(self._offsets) - 1)
        self._top = max(0, len(self._offsets) - self.room)
        self._want_more()
        self.repaint()

    def show_at(self, page: LogPage, offset: int) -> None:
        """Hold still at the line that starts at ``offset``, in the middle of the window."""
        self.following, self.placed = False, True
        self._take(page)
        self._cursor = next((n for n, at in enumerate(page.offsets) if at >= offset), 0)
        self._top = max(0, min(self._cursor - self.room // 3, len(self._offsets) - self.room))
        self.repaint()

    def extend(self, page: LogPage, back: bool) -> None:
        """Add a page that was asked for before or after what is held."""
        self._asked = None
        self._bytes = page.size
        if back and page.end == self._start and page.lines:
            self._lines_held[:0], self._offsets[:0] = page.lines, page.offsets
            self._start = page.start
            self._cursor += len(page.lines)
            self._top += len(page.lines)
            self._drop_last(max(0, len(self._offsets) - MOST))
        elif not back and page.start == self._end and page.lines:
            self._lines_held += page.lines
            self._offsets += page.offsets
            self._end = page.end
            self._drop_first(max(0, len(self._offsets) - MOST))
        self.repaint()

    def grown(self, size_now: int) -> None:
        """Take how large the file is now: what is in sight stands in a larger one."""
        if self.placed and size_now > self._bytes:
            self._bytes = size_now
            self.repaint()

    def say(self, words: str) -> None:
        """Show how a search stands, in the frame."""
        self._status = words
        self.repaint()

    def mark(self, term: str) -> None:
        """Mark every occurrence of ``term``."""
        self.term = term
        self.repaint()

    def hold(self) -> None:
        """Stop following."""
        self.following = False
        self.repaint()

    def move(self, steps: int) -> None:
        """Step the cursor; leaving the page turns half of one."""
        self.following = False
        self._cursor = max(0, min(self._cursor + steps, len(self._offsets) - 1))
        half = self.room // 2
        if self._cursor < self._top:
            self._top = max(0, min(self._cursor, self._top - half))
        elif self._cursor >= self._top + self.room:
            self._top = max(self._cursor - self.room + 1, self._top + half)
        self._top = max(0, min(self._top, len(self._offsets) - self.room))
        self._want_more()
        self.repaint()

    def page(self, pages: int) -> None:
        """Turn pages."""
        last = max(0, len(self._offsets) - self.room)
        self._top = max(0, min(self._top + pages * self.room, last))
        self.move(pages * self.room)

    def sideways(self, direction: int) -> None:
        """Show what stands further right, or left."""
        self._left = max(0, self._left + direction * SIDE_STEP)
        self.repaint()

    def on_resize(self) -> None:
        """Keep the end, or the cursor, in sight."""
        last = max(0, len(self._offsets) - self.room)
        if self.following:
            self._top = last
        self._top = max(0, min(max(self._top, self._cursor - self.room + 1), last))
        self._want_more()
        super().on_resize()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed lines in sight."""
        shown = self._lines_held[self._top : self._top + max(0, height - 2)]
        body = [
            paint_log_line(
                line,
                width - 4,
                self._left,
                self.term,
                not self.following and self._top + at == self._cursor,
                self.kept,
            )
            for at, line in enumerate(shown)
        ]
        return frame(
            body,
            width,
            height,
            self._title(shown),
            text((size(self._bytes) if self.placed else "", DIM)),
            self._foot(),
        )

    def _title(self, shown: Sequence[SafeText]) -> Content:
        state = ("following", "$well") if self.following else ("paused", "$attention")
        found = sum(len(places(line.plain, self.term)) for line in shown) if self.term else 0
        search = (
            text((" · ", DIM), (self._said_term, ACCENT), f" {found} in sight") if self.term else ""
        )
        status = text((" · ", DIM), self._status) if self._status else ""
        side = text((f" · from column {self._left + 1}", DIM)) if self._left else ""
        return text(("log ", STRONG), state, search, status, side)

    @property
    def _said_term(self) -> str:
        return f"/{self.term}/" if isinstance(self.term, Regex) else f'"{self.term}"'

    def _foot(self) -> Content:
        if not self.placed:
            return text(("the last lines", DIM))
        if self.following or not self._bytes:
            return text("")
        share = self.place[0] / self._bytes
        return text((f"{min(share, 1):.1%} of {size(self._bytes)}", DIM))

    def _take(self, page: LogPage) -> None:
        self._lines_held, self._offsets = list(page.lines), list(page.offsets)
        self._start, self._end, self._bytes = page.start, page.end, page.size
        self._asked = None

    def _drop_first(self, count: int) -> None:
        if count:
            del self._lines_held[:count], self._offsets[:count]
            self._start = self._offsets[0]
            self._cursor = max(0, self._cursor - count)
            self._top = max(0, self._top - count)

    def _drop_last(self, count: int) -> None:
        if count:
            self._end = self._offsets[-count]
            del self._lines_held[-count:], self._offsets[-count:]

    def _want_more(self) -> None:
        """Ask for lines before the cursor reaches the buffer's edge."""
        near = 2 * self.room
        if not self.placed:
            return
        if self._cursor < near and self._start > 0:
            self._ask(self.Wanted(self._start, back=True))
        elif self._cursor > len(self._offsets) - near and self._end < self._bytes:
            self._ask(self.Wanted(self._end, back=False))

    def _ask(self, wanted: LogView.Wanted) -> None:
        if self._asked is None:
            self._asked = wanted
            self.post_message(wanted)


def paint_log_line(
    line: SafeText, width: int, left: int, term: str, chosen: bool, keep: Filter = lambda line: line
) -> Content:
    """Return one line from column ``left`` on, cut to ``width``, matches of ``term`` marked.

    ``keep`` says how it may be shown; it is asked about the whole line: half a name is no name.
    """
    shown = marked(keep(foreign(line)), term)
    if left:
        shown = shown[min(left, len(shown.plain)) :]
    shown = shown.truncate(width, ellipsis=True, pad=True)
    return shown.stylize_before("on $cursor") if chosen else shown


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
