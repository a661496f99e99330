"""A log as it is shown: the lines in memory and the part of them on the screen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from textual.content import Content
from textual.message import Message

from cockpit.model.base import SafeText
from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import CONTEXT, Bookmark, LogPage
from cockpit.model.wording import percent, size
from widgets.painted import Painted
from widgets.painting.line import ACCENT, DIM, STRONG, foreign, frame, one_line, text, wrapped
from widgets.painting.logline import Regex, dressed, gutter, marked, paint_line, places

MOST: Final = 4000
"""Lines that are held."""


class Buffer:
    """Lines of bytes ``[start, end)`` of a file of ``size`` bytes, and where each starts.

    ``gaps`` has for each how many lines are left out right before it, ``rest`` after the last.
    """

    def __init__(self) -> None:
        self.lines: list[SafeText] = []
        self.offsets: list[int] = []
        self.gaps: list[int] = []
        self.rest = 0
        self.start = self.end = self.size = 0

    @property
    def hidden(self) -> int:
        """How many lines of the stretch are left out."""
        return sum(self.gaps) + self.rest

    def take(self, page: LogPage) -> None:
        """Hold this page and nothing else."""
        self.lines, self.offsets = list(page.lines), list(page.offsets)
        self.gaps, self.rest = _gaps(page), page.rest
        self.start, self.end, self.size = page.start, page.end, page.size

    def take_end(self, page: LogPage) -> bool:
        """Take a newer end of the same text; return whether it is that: else nothing is taken."""
        at = bisect_left(self.offsets, page.start)
        held = self.lines[at:-1]
        if self.start > page.start or not held or held != list(page.lines[: len(held)]):
            return False
        self.lines[at:], self.offsets[at:], self.gaps[at:] = page.lines, page.offsets, _gaps(page)
        self.end, self.size, self.rest = page.end, page.size, page.rest
        self.drop_first(len(self.offsets) - MOST)
        return True

    def add_before(self, page: LogPage) -> int:
        """Take a page that ends where this begins; return how many lines came and stayed."""
        if page.end != self.start or page.start == page.end:
            return 0
        if self.gaps:
            self.gaps[0] += page.rest
        else:
            self.rest += page.rest
        self.lines[:0], self.offsets[:0], self.gaps[:0] = page.lines, page.offsets, _gaps(page)
        self.start, self.size = page.start, page.size
        self.drop_last(len(self.offsets) - MOST)
        return len(page.lines)

    def add_after(self, page: LogPage) -> bool:
        """Take a page that begins where this ends, or at its last line, which was unfinished."""
        if not self.start <= page.start <= self.end or page.start == page.end:
            return False
        at = bisect_left(self.offsets, page.start)
        if at < len(self.offsets):
            before = self.gaps[at]
        else:
            before = max(0, self.rest - (page.start < self.end))
        gaps = _gaps(page)
        del self.lines[at:], self.offsets[at:], self.gaps[at:]
        self.rest = page.rest if gaps else before + page.rest
        self.lines += page.lines
        self.offsets += page.offsets
        self.gaps += [gaps[0] + before, *gaps[1:]] if gaps else []
        self.end, self.size = page.end, page.size
        return True

    def drop_first(self, count: int) -> None:
        """Let the first lines go."""
        if count > 0:
            del self.lines[:count], self.offsets[:count], self.gaps[:count]
            self.start, self.gaps[0] = self.offsets[0], 0

    def drop_last(self, count: int) -> None:
        """Let the last lines go."""
        if count > 0:
            self.end, self.rest = self.offsets[-count], self.gaps[-count]
            del self.lines[-count:], self.offsets[-count:], self.gaps[-count:]


def _gaps(page: LogPage) -> list[int]:
    return list(page.gaps) or [0] * len(page.lines)


SIDE_STEP: Final = 20
GUTTER: Final = 3
WRAPS_FROM: Final = 110
"""Columns from which long lines are wrapped, unless a person has said how."""
FREE: Final = 4
"""Beside other panels one part in so many is left free below the end when the lines must move."""
BEYOND: Final = 1 << 62
"""An offset after every end."""


class Quote(NamedTuple):
    """A text that an open alert quotes from the log, and the style of the alert."""

    text: str
    style: str


class Count(NamedTuple):
    """Where the lines that match a search start, ascending; ``whole``: all were counted."""

    offsets: Sequence[int]
    whole: bool


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
        self.wraps: bool | None = None
        """Whether long lines are wrapped; ``None``: where there is room."""
        self.sifted = False
        """Whether only warnings and errors are shown."""
        self.floor = 0
        """Where the lines begin that are shown at all: the present job's, or the file's."""
        self.quotes: Sequence[Quote] = ()
        self._bookmarks: Mapping[int, Bookmark] = {}
        self._count: Count | None = None
        self._status = ""
        self._buffer = Buffer()
        self._cursor = self._top = self._left = 0
        self._first: tuple[int, int] | None = None
        """Where the first line in sight starts while the end is followed, and its hidden rows."""
        self._asked: LogView.Wanted | None = None

    @property
    def room(self) -> int:
        """How many lines are in sight."""
        return max(1, self.size.height - 2)

    @property
    def offsets(self) -> list[int]:
        """Where the lines start that are held."""
        return self._buffer.offsets

    @property
    def end(self) -> int:
        """Where the stretch ends that is held."""
        return self._buffer.end

    @property
    def held(self) -> list[SafeText]:
        """All lines that are held."""
        return self._buffer.lines

    @property
    def sight(self) -> tuple[int, int]:
        """The first line in sight and the one after the last, of those that are held."""
        return self._top, min(self._top + self.room, len(self.held))

    @property
    def at_cursor(self) -> tuple[int, SafeText] | None:
        """Where the line at the cursor starts, and the line."""
        lines, offsets = self.up_to_cursor
        return (offsets[-1], lines[-1]) if offsets else None

    @property
    def up_to_cursor(self) -> tuple[list[SafeText], list[int]]:
        """The line at the cursor after those right before it, and where they start."""
        if not self.placed or not self.offsets:
            return [], []
        at = min(self._cursor, len(self.offsets) - 1)
        first = at if self.sifted else max(0, at - CONTEXT)
        return self.held[first : at + 1], self.offsets[first : at + 1]

    @property
    def place(self) -> tuple[int, int]:
        """The byte offsets of the cursor's line and of the one after it; else beyond the end."""
        if not self.placed:
            return BEYOND, BEYOND
        if not self.offsets:
            return 0, 0
        after = self._cursor + 1
        return self.offsets[self._cursor], (
            self.offsets[after] if after < len(self.offsets) else self.end
        )

    def show_tail(self, page: LogPage, *, placed: bool = True) -> None:
        """Show the end of the file; what is held before it stays.

        ``placed`` is False of lines of which only the order is known.
        """
        known, self.placed = self.placed, placed
        if not (known and self._buffer.take_end(page)):
            self._take(page)
        self._to_end()

    def show_more(self, page: LogPage) -> None:
        """Show what was written behind the lines that are held."""
        if self._buffer.add_after(page):
            self._buffer.drop_first(len(self.offsets) - MOST)
        self._to_end()

    def show_at(self, page: LogPage, offset: int) -> None:
        """Hold still at the line that starts at ``offset``, in the middle of the window."""
        self.following, self.placed = False, True
        self._take(page)
        last = max(0, len(page.offsets) - 1)
        self._cursor = min(bisect_left(page.offsets, offset), last)
        self._top = max(0, min(self._cursor - self.room // 3, len(self.offsets) - self.room))
        self._want_more()
        self.repaint()

    def extend(self, page: LogPage, back: bool) -> None:
        """Add a page that was asked for before or after what is held."""
        self._asked = None
        self._buffer.size = page.size
        if back:
            added = self._buffer.add_before(page)
            self._cursor += added
            self._top += added
            if self.following:
                self._to_end()
        elif self._buffer.add_after(page):
            dropped = max(0, len(self.offsets) - MOST)
            self._buffer.drop_first(dropped)
            self._cursor = max(0, self._cursor - dropped)
            self._top = max(0, self._top - dropped)
        if self.sifted:
            self._want_more()
        self.repaint()

    def enough(self) -> None:
        """Take that nothing more comes for now; the next key asks again."""
        self._asked = None

    def grown(self, size_now: int) -> None:
        """Take how large the file is now: what is in sight stands in a larger one."""
        if self.placed and size_now > self._buffer.size:
            self._buffer.size = size_now
            self.repaint()

    def say(self, words: str) -> None:
        """Show how a search stands, in the frame."""
        self._status = words
        self.repaint()

    def mark(self, term: str) -> None:
        """Mark every occurrence of ``term``."""
        self.term, self._count = term, self._count if term == self.term else None
        self.repaint()

    def count(self, count: Count) -> None:
        """Show how many lines match, as far as they were counted."""
        self._count = count
        self.repaint()

    def quoted(self, quotes: Sequence[Quote]) -> None:
        """Mark the lines that open alerts quote."""
        if quotes != self.quotes:
            self.quotes = quotes
            self.repaint()

    def flag(self, bookmarks: Mapping[int, Bookmark]) -> None:
        """Mark the lines that are bookmarked, by where they start."""
        if bookmarks != self._bookmarks:
            self._bookmarks = bookmarks
            self.repaint()

    def hold(self) -> None:
        """Stop following."""
        self.following = False
        self.repaint()

    def move(self, steps: int) -> None:
        """Step the cursor; leaving the page turns half of one."""
        self.following = False
        self._cursor = max(0, min(self._cursor + steps, len(self.offsets) - 1))
        half = self.room // 2
        if self._cursor < self._top:
            self._top = max(0, min(self._cursor, self._top - half))
        elif self._cursor >= self._top + self.room:
            self._top = max(self._cursor - self.room + 1, self._top + half)
        self._top = max(0, min(self._top, len(self.offsets) - self.room))
        self._want_more()
        self.repaint()

    def page(self, pages: int) -> None:
        """Turn pages."""
        last = max(0, len(self.offsets) - self.room)
        self._top = max(0, min(self._top + pages * self.room, last))
        self.move(pages * self.room)

    def sideways(self, direction: int) -> None:
        """Show what stands further right, or left: long lines are cut for that."""
        self.wraps = False
        self._left = max(0, self._left + direction * SIDE_STEP)
        self.repaint()

    def toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wraps, self._left, self._first = not self.wrapping, 0, None
        self.repaint()

    @property
    def wrapping(self) -> bool:
        """Whether long lines are wrapped now."""
        return self.wraps if self.wraps is not None else self.size.width >= WRAPS_FROM

    def on_resize(self) -> None:
        """Keep the end, or the cursor, in sight."""
        last = max(0, len(self.offsets) - self.room)
        self._first = None
        if self.following:
            self._top = last
        self._top = max(0, min(max(self._top, self._cursor - self.room + 1), last))
        self._want_more()
        super().on_resize()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed lines in sight."""
        body = self._rows(width - 4, max(0, height - 2))
        note = text((size(self._buffer.size) if self.placed else "", DIM))
        return frame(body, width, height, self._title(), note, self._foot())

    def _rows(self, width: int, room: int) -> list[Content]:
        if self.following:
            return self._to_the_end(width, room)
        self._first = None
        if not self.wrapping:
            lines = range(self._top, min(self._top + room, len(self.held)))
            return [row for at in lines for row in self._rows_of(at, width)]
        return self._around_cursor(width, room)

    def _to_the_end(self, width: int, room: int) -> list[Content]:
        """Return the newest lines; beside other panels they stand still while there is room below.

        A terminal moves whole rows by itself, but none beside others: there each line more would
        cost all lines. So they move seldom, and by some rows at once.
        """
        rows, least = self._standing_rows(width), room - room // FREE
        if rows is not None and least <= len(rows) <= room:
            return rows
        limit = least if rows is not None and len(rows) > room else room
        rows, at = [], len(self.held)
        while at > 0 and len(rows) < limit:
            at -= 1
            rows[:0] = self._rows_of(at, width)
        self._top, hidden = at, max(0, len(rows) - limit)
        known = self.placed and at < len(self.offsets)  # without any row none is first
        self._first = (self.offsets[at], hidden) if known else None
        return rows[hidden:]

    def _standing_rows(self, width: int) -> list[Content] | None:
        """Return the rows from the line on that stood first; ``None``: lines need not stand."""
        if self._first is None or not self.placed or self.size.width >= self.app.size.width:
            return None
        offset, hidden = self._first
        at = bisect_left(self.offsets, offset)
        if offset not in self.offsets[at : at + 1] or len(self.offsets) - at > 2 * self.room:
            return None
        self._top = at
        lines = range(at, len(self.held))
        return [row for line in lines for row in self._rows_of(line, width)][hidden:]

    def _around_cursor(self, width: int, room: int) -> list[Content]:
        """Return wrapped lines from the top on, which comes down until the cursor is in sight."""
        if not self.held:
            return []
        before = [self._rows_of(at, width) for at in range(self._top, self._cursor + 1)][-room:]
        while len(before) > 1 and sum(map(len, before)) > room:
            before.pop(0)
        rows = [row for line in before for row in line]
        self._top, at = self._cursor + 1 - len(before), self._cursor + 1
        while at < len(self.held) and len(rows) < room:
            rows += self._rows_of(at, width)
            at += 1
        return rows[:room]

    def _rows_of(self, at: int, width: int) -> list[Content]:
        """Return a line that is held, over as many rows as it takes."""
        line = self.kept(foreign(self.held[at]))
        former = dressed(self.held[at - 1].plain).day if at else ""
        quote = next((each.style for each in self.quotes if each.text in line.plain), "")
        mark = self._bookmarks.get(self.offsets[at]) if self.placed else None
        # what reads otherwise there is another line
        kept = mark is not None and (mark.last or mark.begins(self.held[at].plain))
        rows = paint_log_line(line, width - GUTTER, self._left, self.term, former, self.wrapping)
        first = gutter(dressed(line.plain).level, quote, kept)
        under = gutter("", quote, False)
        rows = [text(under if number else first, row) for number, row in enumerate(rows)]
        if self.following or at != self._cursor:
            return rows
        return [row.truncate(width, pad=True).stylize_before("on $cursor") for row in rows]

    def _title(self) -> Content:
        state = ("following", "$well") if self.following else ("paused", "$attention")
        states = [self._sifting, "this job only" if self.floor else "", self._status]
        states += [f"from column {self._left + 1}"] if self._left else []
        parts = [text((" · ", DIM), each) for each in states if each]
        term = f"/{self.term}/" if isinstance(self.term, Regex) else f'"{self.term}"'
        search = text((" · ", DIM), (term, ACCENT), self._matches) if self.term else ""
        return text(("log", STRONG), (" · ", DIM), state, search, *parts)

    @property
    def _sifting(self) -> str:
        """Return what is left out, and of how much of the file that is said."""
        if not self.sifted:
            return ""
        buffer = self._buffer
        looked = buffer.end - buffer.start
        part = looked < buffer.size - self.floor
        of = f" of the {size(looked)} looked at" if part else ""
        return f"warnings and errors only, {buffer.hidden:,} lines hidden{of}"

    @property
    def _matches(self) -> str:
        """Return how many lines match, and which of them the cursor is on."""
        if self._count is None:
            shown = self.held[slice(*self.sight)]
            return f" {sum(len(places(line.plain, self.term)) for line in shown)} on screen"
        offsets, whole = self._count
        here = self.at_cursor
        at = bisect_left(offsets, here[0]) if here is not None and not self.following else 0
        on = here is not None and at < len(offsets) and offsets[at] == here[0]
        count = f"{len(offsets):,}{'' if whole else '+'}"
        if on and whole and not self.following:
            return f" {at + 1:,} of {count}"
        return f" {count} {'line' if count == '1' else 'lines'}"

    def _foot(self) -> Content:
        if not self.placed:
            return text(("the last lines", DIM))
        if self.following or not self._buffer.size:
            return text("")
        share = self.place[0] / self._buffer.size
        return text((f"{percent(min(share, 1), 1)} of {size(self._buffer.size)}", DIM))

    def _take(self, page: LogPage) -> None:
        self._buffer.take(page)
        self._asked = None

    def _to_end(self) -> None:
        self._cursor = max(0, len(self.offsets) - 1)
        self._top = max(0, len(self.offsets) - self.room)
        self._want_more()
        self.repaint()

    def _want_more(self) -> None:
        """Ask for lines before the cursor reaches the buffer's edge."""
        near = 2 * self.room
        if not self.placed:
            return
        if self._cursor < near and self._buffer.start > self.floor:
            self._ask(self.Wanted(self._buffer.start, back=True))
        elif self._cursor > len(self.offsets) - near and self.end < self._buffer.size:
            self._ask(self.Wanted(self.end, back=False))

    def _ask(self, wanted: LogView.Wanted) -> None:
        if self._asked is None:
            self._asked = wanted
            self.post_message(wanted)


def paint_log_line(
    line: Content, width: int, left: int, term: str, former_day: str, wraps: bool
) -> list[Content]:
    """Return a line over as many rows as it takes, or from column ``left`` on in one.

    Matches of ``term`` are marked; the day of its stamp is shown where it is not ``former_day``.
    """
    found = places(line.plain, term)
    shown = paint_line(marked(line, term), former_day, found[0][0] if found else None)
    if wraps and shown.cell_length > width:
        return [row.rstrip() for row in shown.wrap(max(1, width))]
    if left:
        shown = shown[min(left, len(shown.plain)) :]
    elif shown.cell_length > width and _FRAME.match(line.plain) and not found:
        shown = one_line(shown, width, indented=True)
    return [shown.truncate(max(0, width), ellipsis=True)]


_FRAME: Final = late_regex(r'.{0,80}?File "[^"]+", line \d+')
"""A line of a traceback: ``  File "/opt/venv/lib/train.py", line 1323, in step``."""


class PastLog(LogView):
    """Holds still at the end of then; ``origin`` says what it shows and how that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.following = False
        self.origin = ""

    def show_kept(self, lines: Sequence[SafeText], origin: str) -> None:
        """Show lines of which only the order is known, or why there is none."""
        page = LogPage(tuple(lines), tuple(range(len(lines))), 0, 0, 0)
        self.show_then(page, origin, placed=False)

    def show_then(self, page: LogPage, origin: str, *, placed: bool = True) -> None:
        """Show the end of the log as it was; what stands before it is asked for when near."""
        self.origin, self.placed = origin, placed
        self._take(page)
        self._to_end()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed lines in sight, or why there is none."""
        if self.held:
            return super().paint(width, height)
        why = wrapped(text((f"? {self.origin}", DIM)), max(1, width - 4), 4)
        return frame(why, width, height, text(("log", STRONG)))

    def _title(self) -> Content:
        return text(("log", STRONG), (f" · {self.origin}", DIM))
