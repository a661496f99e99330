"""Cells, pens and the shortest terminal sequences from one screen to another.

A pen is how a cell looks. Text becomes cells: one for each column, of a wide character one with it
and an empty one. Equal cells are one object, so lines are compared by identity first.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len, split_graphemes

_OFF: Final = {1: 22, 2: 22, 3: 23, 4: 24, 5: 25, 6: 25, 7: 27, 8: 28, 9: 29,
               21: 24, 51: 54, 52: 54, 53: 55}  # fmt: skip
"""What ends each mark; some end two (bold and dim)."""
_ON_BLANKS: Final = frozenset({4, 5, 6, 7, 9, 21, 51, 52, 53})
"""Marks that can be seen where no letter stands."""
_COLOUR_PARTS: Final = {"5": 3, "2": 5}
"""How many numbers a colour of the palette (``38;5;n``) or a true one (``38;2;r;g;b``) has."""


class Pen(NamedTuple):
    """What a terminal writes with: colours as SGR parameters (``""``: its own), marks, a link."""

    fg: str = ""
    bg: str = ""
    marks: tuple[int, ...] = ()
    link: str = ""
    """Parameters and address of a hyperlink (``id=1;https://…``), as OSC 8 takes them."""


PLAIN: Final = Pen()


def pen_of(parameters: str, link: str = "") -> Pen:
    """Return the pen that SGR parameters (``1;38;2;1;2;3``) make of a plain one."""
    fg = bg = ""
    marks: set[int] = set()
    numbers = parameters.split(";") if parameters else []
    while numbers:
        length = _COLOUR_PARTS.get("".join(numbers[1:2]), 1) if numbers[0] in ("38", "48") else 1
        part, numbers = numbers[:length], numbers[length:]
        code = int(part[0] or 0)
        if code in _OFF:
            marks.add(code)
        elif 30 <= code <= 38 or 90 <= code <= 97:
            fg = ";".join(part)
        elif 40 <= code <= 48 or 100 <= code <= 107:
            bg = ";".join(part)
    return Pen(fg, bg, tuple(sorted(marks)), link)


@lru_cache(maxsize=4096)
def on_blank(pen: Pen) -> Pen:
    """Return the part of a pen that can be seen in an empty cell."""
    marks = tuple(each for each in pen.marks if each in _ON_BLANKS)
    return Pen(pen.fg if marks else "", pen.bg, marks, pen.link)


@lru_cache(maxsize=8192)
def over_blank(pen: Pen, needed: Pen) -> Pen:
    """Return a pen that leaves an empty cell as ``needed`` would, as like ``pen`` as can be."""
    unseen = {each for each in pen.marks if each not in _ON_BLANKS}
    marks = tuple(sorted(unseen | set(needed.marks)))
    return Pen(needed.fg if needed.marks else pen.fg, needed.bg, marks, needed.link)


@lru_cache(maxsize=8192)
def change(former: Pen | None, to: Pen) -> str:
    """Return what makes a terminal write with ``to``; ``former`` may be unknown (``None``)."""
    anew = _sgr(["0", *map(str, to.marks), *filter(None, (to.fg, to.bg))])
    sgr = anew if former is None else min(anew, _sgr(_differing(former, to)), key=len)
    if to.link == ("" if former is None else former.link):
        return sgr
    return f"\x1b]8;{to.link or ';'}\x1b\\{sgr}"


def _differing(former: Pen, to: Pen) -> list[str]:
    lost = {_OFF[each] for each in former.marks if each not in to.marks}
    kept = {each for each in former.marks if each in to.marks and _OFF[each] not in lost}
    codes = [*map(str, sorted(lost)), *(str(each) for each in to.marks if each not in kept)]
    if former.fg != to.fg:
        codes.append(to.fg or "39")
    if former.bg != to.bg:
        codes.append(to.bg or "49")
    return codes


def _sgr(codes: list[str]) -> str:
    if not codes:
        return ""
    return "\x1b[m" if codes == ["0"] else f"\x1b[{';'.join(codes)}m"


Cell: TypeAlias = tuple[str, Pen]
Row: TypeAlias = list[Cell]
"""A line of the screen, as wide as that is."""

_PENS: Final = 2048
"""Pens whose cells are kept at once; a screen has some dozens."""
_LETTERS: Final = 8192
_JOINER: Final = "\N{ZERO WIDTH JOINER}"
_CONTROL: Final = dict.fromkeys([*range(32), *range(127, 160)])


class _Letters(dict[str, Cell]):
    """The cells of one pen, by what stands in them."""

    def __init__(self, pen: Pen) -> None:
        super().__init__()
        self._pen = pen

    def __missing__(self, letter: str) -> Cell:
        if len(self) > _LETTERS:
            self.clear()
        if letter == " ":
            seen = on_blank(self._pen)
            cell = (" ", seen) if seen == self._pen else _letters(seen)[" "]
        else:
            cell = (letter, self._pen)
        self[letter] = cell
        return cell


@lru_cache(maxsize=_PENS)
def _letters(pen: Pen) -> _Letters:
    return _Letters(pen)


def blank(pen: Pen = PLAIN) -> Cell:
    """Return an empty cell in a pen's background."""
    return _letters(pen)[" "]


def cells_of(text: str, pen: Pen = PLAIN) -> list[Cell]:
    """Return a text as cells. What would move the cursor, or joins nothing, is left out."""
    letters = _letters(pen)
    if not text.isprintable():
        text = text.translate(_CONTROL)
    if text.isascii() or _simple(text):
        return list(map(letters.__getitem__, text))
    return [letters[each] for each in _clusters(text)]


def doubtful(letter: str) -> bool:
    """Return whether terminals differ about how many cells this takes: clusters and emoji do."""
    return len(letter) > 1 or (letter > "\x7e" and _disputed(letter))


def most_cells(letter: str) -> int:
    """Return how many cells this takes where each of its characters stands for itself."""
    return sum(2 if _disputed(each) else max(1, cell_len(each)) for each in letter)


@lru_cache(maxsize=4096)
def _disputed(letter: str) -> bool:
    if letter < "\u2e80":  # the usual signs and scripts; a wide one here is an emoji
        return cell_len(letter) != 1 or unicodedata.east_asian_width(letter) in ("W", "F")
    wide = unicodedata.east_asian_width(letter) in ("W", "F")
    return letter > "\U0001efff" or cell_len(letter) != (2 if wide else 1)


@lru_cache(maxsize=4096)
def _simple(text: str) -> bool:
    return cell_len(text) == len(text) and all(cell_len(letter) == 1 for letter in text)


@lru_cache(maxsize=4096)
def _clusters(text: str) -> tuple[str, ...]:
    spans, _ = split_graphemes(text)
    found: list[str] = []
    for start, end, width in spans:
        letter = text[start:end].rstrip(_JOINER)  # at the end it would join what comes next
        found += [letter, *[""] * (width - 1)] if width else []
    return tuple(found)


WORTH: Final = 12
"""Cells from which on erasing them takes less than writing them."""


class Erasure(NamedTuple):
    """Cells ``x`` to before ``end`` of a row become one ``blank``."""

    y: int
    x: int
    end: int
    blank: Cell


def erasable(cell: Cell, *, coloured: bool) -> bool:
    """Return whether erasing leaves this cell; ``coloured``: in the pen's background."""
    letter, pen = cell
    return letter == " " and not pen.marks and not pen.link and (coloured or not pen.bg)


def find_erasures(
    rows: Sequence[Row], differing: Mapping[int, list[int]], *, coloured: bool
) -> Iterator[Erasure]:
    """Yield what is to be erased of the ``differing`` cells of each row, the last ones first.

    Such a stretch begins and ends with a blank that differs.
    """
    for y, places in differing.items():
        row, at = rows[y], len(places)
        while at >= WORTH:
            last = places[at - 1]
            first = _begin(row, last) if erasable(row[last], coloured=coloured) else last
            begin = bisect_left(places, first, hi=at)
            if at - begin >= WORTH:
                yield Erasure(y, places[begin], last + 1, row[last])
            at = min(begin, at - 1)


def _begin(row: Row, x: int) -> int:
    """Return where the equal cells begin that end here."""
    cell = row[x]
    while x and row[x - 1] == cell:
        x -= 1
    return x


def left_over(
    differing: Mapping[int, list[int]], erasures: Sequence[Erasure]
) -> Mapping[int, list[int]]:
    """Return the cells that are still to be written where these are erased."""
    left = dict(differing)
    for y, x, end, _ in erasures:
        places = left[y]
        left[y] = places[: bisect_left(places, x)] + places[bisect_left(places, end) :]
    return left


ERASE_FROM = 4
"""Blanks at a line's end from which on erasing them takes less than writing them."""
BRIDGE = 8
"""Unchanged cells between changed ones that may take less to write than to step over."""


class Encoder:
    """Writes cells into ``taken``; ``y``, ``x`` and ``pen`` are the terminal's (``None``: unknown).

    ``erases``: an erased cell gets the pen's background; else only blanks of none are erased.
    ``repeats``: it can repeat a letter (REP).
    """

    def __init__(self, width: int = 0, *, erases: bool = True) -> None:
        self.width = width
        self.erases = erases
        self.repeats = False
        self.y: int | None = None
        self.x: int | None = None
        self.pen: Pen | None = None
        self._linked = False
        self._parts: list[str] = []

    def copy(self) -> Encoder:
        """Return another that goes on from here."""
        other = copy(self)
        other._parts = list(self._parts)
        return other

    @property
    def length(self) -> int:
        """Return how many bytes wait to be taken."""
        return len("".join(self._parts).encode())

    def taken(self) -> str:
        """Return what was written since the last call."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def take(self, pen: Pen) -> None:
        """Write with that pen from now on."""
        if pen is not self.pen:
            self._parts.append(change(self.pen, pen))
            self.pen = pen
            self._linked = self._linked or bool(pen.link)

    def move(self, y: int, x: int) -> None:
        """Put the cursor there."""
        if (y, x) != (self.y, self.x):
            self._parts.append(shortest_move(self.y, self.x, y, x))
            self.y, self.x = y, x

    def clear(self, pen: Pen) -> None:
        """Erase the whole screen in a pen's background; nothing is taken for known."""
        self._parts.append("\x1b[r\x1b[H")  # other margins would have been another program's
        self.y, self.x, self.pen = 0, 0, None
        if self._linked:
            self._parts.append("\x1b]8;;\x1b\\")
        self.take(pen)
        self._parts.append("\x1b[J")

    def scroll(self, top: int, bottom: int, lines: int) -> None:
        """Scroll rows ``top`` to ``bottom`` up (down for a negative number)."""
        self._parts.append(f"\x1b[{top + 1};{bottom + 1}r")
        self.y = self.x = 0
        self.move(bottom if lines > 0 else top, 0)
        self._parts.append("\n" * lines if lines > 0 else "\x1bM" * -lines)
        self._parts.append("\x1b[r")
        self.y = self.x = 0

    def column(self, x: int, top: int, bottom: int, cell: Cell) -> None:
        """Write the same narrow cell in several rows."""
        for y in range(top, bottom + 1):
            self.move(y, x)
            self.take(cell[1])
            self._letter(cell[0], x, x + 1)

    def erase(self, erasure: Erasure) -> None:
        """Empty a stretch of a row."""
        y, x, end, blank = erasure
        self.move(y, x)
        self.take(pen_for(self.pen, blank))
        self._parts.append("\x1b[K" if end == self.width else f"\x1b[{end - x}X")

    def line(self, y: int, wanted: Row, differing: Sequence[int]) -> None:
        """Write the cells of a row that differ from what it shows."""
        tail = self._erasable(wanted, differing)
        at = 0
        while at < len(differing) and differing[at] < tail:
            at = self._run(y, wanted, differing, at, tail)
        if at < len(differing):
            self.move(y, max(tail, differing[at]))
            self.take(pen_for(self.pen, wanted[-1]))
            self._parts.append("\x1b[K")

    def _erasable(self, wanted: Row, differing: Sequence[int]) -> int:
        """Return from where on the row is one blank that is better erased than written."""
        last = wanted[-1]
        if not erasable(last, coloured=self.erases):
            return self.width
        tail = self.width
        while tail and wanted[tail - 1] == last:
            tail -= 1
        changed = sum(1 for x in reversed(differing) if x >= tail)
        return tail if changed >= ERASE_FROM else self.width

    def _run(self, y: int, wanted: Row, differing: Sequence[int], at: int, tail: int) -> int:
        """Write changed cells that follow each other; return the index of the next to write."""
        x = differing[at]
        while not wanted[x][0] and x:
            x -= 1
        self.move(y, x)
        spoilt = 0
        while x < self.width:
            start, x = x, self._plain(wanted, x, differing, at, tail)
            if x == start:
                x = self._cell(wanted, x, differing, at)
            while at < len(differing) and differing[at] < x:
                at += 1
            if self.x is None:  # the next cells may have been written over
                spoilt = max(x + 1, start + most_cells(wanted[start][0]))
            if x < min(spoilt, self.width):
                self.move(y, x)
                continue
            next_one = differing[at] if at < len(differing) else tail
            if next_one >= tail or not self._bridges(wanted, x, next_one):
                break
        return at

    def _bridges(self, wanted: Row, x: int, to: int) -> bool:
        """Return whether to write the cells from ``x`` on takes no more than to go past them."""
        if to - x > BRIDGE or x == to:
            return x == to
        pen, cost = self.pen, 0
        for cell in wanted[x:to]:
            needed = pen_for(pen, cell)
            cost += len(change(pen, needed)) + len(cell[0].encode())
            pen = needed
        then = len(change(pen, pen_for(pen, wanted[to])))
        past = len(shortest_move(self.y, x, self.y or 0, to))
        return cost + then <= past + len(change(self.pen, pen_for(self.pen, wanted[to])))

    def _plain(self, wanted: Row, x: int, differing: Sequence[int], at: int, tail: int) -> int:
        """Write the changed cells that the pen at hand writes one by one; return the column behind.

        ``x`` where the first is not of that kind. A whole screen is made of such cells, and its
        first frame waits for every one that is looked at closely.
        """
        letters = []
        pen = self.pen
        for place, changed in zip(range(x, tail), islice(differing, at, None), strict=False):
            letter, needed = cell = wanted[place]
            if changed != place or (needed is not pen and pen_for(pen, cell) != pen):
                break
            following = wanted[place + 1 : place + 3]
            if not letter or doubtful(letter) or following == [cell, cell]:  # many take fewer bytes
                break
            if following and not following[0][0]:
                break
            letters.append(letter)
        if letters:
            x += len(letters)
            self._parts.append("".join(letters))
            self.x = x if x < self.width else None
        return x

    def _cell(self, wanted: Row, x: int, differing: Sequence[int], at: int) -> int:
        """Write one cell, or several that are equal; return the column behind."""
        letter = wanted[x][0]
        self.take(pen_for(self.pen, wanted[x]))
        after = x + 1
        while after < self.width and not wanted[after][0]:
            after += 1
        count = 1
        if self.repeats and after == x + 1 and not doubtful(letter):
            count = self._equal(wanted, x, differing, at)
        self._letter(letter, x, after)
        size = len(letter.encode())
        if count > 1 and (count - 1) * size > len(str(count - 1)) + 3:
            self._parts.append(f"\x1b[{count - 1}b")
            after = x + count
            self.x = after if after < self.width else None
        return after

    def _equal(self, wanted: Row, x: int, differing: Sequence[int], at: int) -> int:
        """Return how many equal cells begin here, up to the last that is to be written."""
        end = x + 1
        while end < self.width and wanted[end] == wanted[x]:
            end += 1
        last = bisect_left(differing, end, lo=at) - 1
        return differing[last] + 1 - x if last >= at else 1

    def _letter(self, letter: str, x: int, after: int) -> None:
        """Write what stands in the cells from ``x`` on, the cursor being there."""
        if doubtful(letter):  # first its cells emptied: it may take fewer, or more
            self._parts.append(" " * (after - x) + f"\x1b[{x + 1}G" + letter)
            self.x = None
        else:
            self._parts.append(letter)
            self.x = after if after < self.width else None


def pen_for(pen: Pen | None, cell: Cell) -> Pen:
    """Return what to write a cell with: an empty one asks little of the pen at hand."""
    letter, needed = cell
    return needed if pen is None or letter != " " else over_blank(pen, needed)


def shortest_move(y: int | None, x: int | None, to_y: int, to_x: int) -> str:
    """Return the shortest sequence that moves a cursor; ``None`` is an unknown row or column."""
    ways = [f"\x1b[{to_y + 1};{to_x + 1}H" if to_x else f"\x1b[{to_y + 1}H"]
    if not to_y and not to_x:
        ways.append("\x1b[H")
    if y == to_y:
        ways += _along(x, to_x)
    elif y is not None:
        count = "" if abs(to_y - y) == 1 else str(abs(to_y - y))
        ways.append(f"\x1b[{count}{'B' if to_y > y else 'A'}{_along(x, to_x)[0]}")
        if to_y - y in (1, 2):
            ways += ["\r" + "\n" * (to_y - y) + along for along in _along(0, to_x)]
    return min(ways, key=len)


def _along(x: int | None, to_x: int) -> list[str]:
    """Return ways along a row, the shortest first."""
    ways = [f"\x1b[{to_x + 1}G" if to_x else "\r"]
    if x is None:
        return ways
    by = abs(to_x - x)
    count = "" if by == 1 else str(by)
    if to_x > x:
        ways.append(f"\x1b[{count}C")
    elif to_x < x:
        ways += ["\b" * by if by < 3 else f"\x1b[{count}D"]
    else:
        ways.append("")
    return sorted(ways, key=len)
