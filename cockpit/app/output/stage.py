"""The output stage: what the terminal should show and what it shows; a frame is the difference.

Pure: no Textual, no I/O. The stage finds rows that only moved (scrolls), chooses the order in which
cells are written (row by row, pen by pen, or down a column), and encodes what differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len

from cockpit.app.output.encoder import (
    PLAIN,
    Cell,
    Encoder,
    Pen,
    Row,
    blank,
    change,
    doubtful,
    find_erasures,
    left_over,
    over_blank,
)


class Grid:
    """Rows of cells; what is put over half a wide character leaves a blank in its other half."""

    def __init__(self, width: int = 0, height: int = 0, of: Cell | None = None) -> None:
        self.width, self.height = width, height
        self.rows: list[Row] = [[of or blank()] * width for _ in range(height)]

    def put(self, y: int, x: int, cells: Sequence[Cell]) -> None:
        """Put cells at a place; what lies outside is left out."""
        if not 0 <= y < self.height or not 0 <= x < self.width:
            return
        row = self.rows[y]
        end = min(x + len(cells), self.width)
        row[x:end] = cells[: end - x]
        if not row[x][0]:
            row[x] = blank(row[x][1])
        if x and _halved(row, x - 1):
            row[x - 1] = blank(row[x - 1][1])
        if end < self.width and not row[end][0]:
            row[end] = blank(row[end][1])
        if _halved(row, end - 1):
            row[end - 1] = blank(row[end - 1][1])

    def resized(self, width: int, height: int) -> Grid:
        """Return a grid of another size that shows the same, as far as it goes."""
        other = Grid(width, height)
        for y, row in enumerate(self.rows[:height]):
            other.put(y, 0, row)
        return other


def _halved(row: Row, x: int) -> bool:
    """Return whether a wide character stands here that has lost its second cell."""
    letter = row[x][0]
    if letter.isascii() or cell_len(letter) < 2:
        return False
    return x + 1 == len(row) or row[x + 1][0] != ""


LEAST_ROWS: Final = 3
"""Rows from which on a line is written downwards."""


class Column(NamedTuple):
    """Rows ``top`` to ``bottom`` have the same cell at ``x``, and all are to be written."""

    x: int
    top: int
    bottom: int


def find_columns(rows: Sequence[Row], differing: Mapping[int, Sequence[int]]) -> Iterator[Column]:
    """Yield the lines among the ``differing`` cells of each row."""
    open_at: dict[int, int] = {}
    for y in range(len(rows) + 1):
        here = {x for x in differing.get(y, ()) if _alone(rows[y], x)}
        for x in [x for x in open_at if x not in here or rows[y][x] != rows[y - 1][x]]:
            top = open_at.pop(x)
            if y - top >= LEAST_ROWS:
                yield Column(x, top, y - 1)
        for x in here:
            open_at.setdefault(x, y)


def _alone(row: Row, x: int) -> bool:
    """Return whether a cell is a letter that shares its pen, and may share its room, with none."""
    letter, pen = row[x]
    if letter in ("", " "):
        return False
    for beside, its in (*row[max(0, x - 1) : x], *row[x + 1 : x + 2]):
        if beside != " " and (its is pen or its == pen):
            return False
    return not doubtful(letter) and (x + 1 == len(row) or row[x + 1][0] != "")


FEW: Final = 24
"""Cells up to whose number row by row is taken without trying the other."""


def shortest(
    encoder: Encoder,
    rows: Sequence[Row],
    differing: Mapping[int, list[int]],
    *,
    whole: bool = False,
    downwards: bool = True,
) -> Encoder:
    """Return the encoder after it has written the cells that differ, by row, the shorter way.

    ``downwards``: lines that go down the screen may be written so.

    Of a ``whole`` screen, which has most colours in many rows, pen by pen is: it is not tried row
    by row, for a first frame waits for either.
    """
    if sum(map(len, differing.values())) <= FEW:
        _by_rows(encoder, rows, differing)
        return encoder
    erases = not whole and not encoder.repeats  # a blank repeated takes no more than one erased
    erasures = [*find_erasures(rows, differing, coloured=encoder.erases)] if erases else []
    differing = left_over(differing, erasures)
    other = encoder if whole else encoder.copy()
    rest = _downwards(other, rows, differing) if downwards else differing
    _by_pens(other, rows, rest)
    if whole:
        return other
    _by_rows(encoder, rows, differing)
    best = min(encoder, other, key=lambda each: each.length)
    for each in sorted(erasures, key=lambda each: (each.x, each.y)):  # a step down is short
        best.erase(each)
    return best


def _by_rows(encoder: Encoder, rows: Sequence[Row], differing: Mapping[int, list[int]]) -> None:
    for y, places in differing.items():
        encoder.line(y, rows[y], places)


def _downwards(
    encoder: Encoder, rows: Sequence[Row], differing: Mapping[int, list[int]]
) -> Mapping[int, list[int]]:
    """Write the lines that go down the screen; return what is left."""
    down: set[tuple[int, int]] = set()
    if len(differing) >= LEAST_ROWS:
        for x, top, bottom in find_columns(rows, differing):
            encoder.column(x, top, bottom, rows[top][x])
            down.update((y, x) for y in range(top, bottom + 1))
    if not down:
        return differing
    return {y: [x for x in places if (y, x) not in down] for y, places in differing.items()}


def _by_pens(encoder: Encoder, rows: Sequence[Row], differing: Mapping[int, list[int]]) -> None:
    groups: dict[Pen, list[tuple[int, list[int]]]] = {}
    for y, places in differing.items():
        for pen, run in _runs(rows[y], places):
            groups.setdefault(pen, []).append((y, run))
    for group in groups.values():
        for y, run in group:
            encoder.line(y, rows[y], run)


def _runs(row: Row, places: Sequence[int]) -> Iterator[tuple[Pen, list[int]]]:
    """Yield a row's cells by what they are written with; blanks go with what stands before them."""
    pen: Pen | None = None
    run: list[int] = []
    for x in places:
        letter, needed = row[x]
        alike = pen is not None and (
            over_blank(pen, needed) == pen if letter == " " else needed == pen
        )
        if pen is None or not alike:
            if pen is not None:
                yield pen, run
            pen, run = needed, []
        run.append(x)
    if pen is not None:
        yield pen, run


Shown: TypeAlias = Sequence[Cell | None]
"""A row as the terminal shows it; ``None`` is unknown."""
WORTH: Final = 24
"""Cells that a scroll must spare: it takes some 25 bytes, and a frame is scrolled once at most."""
MANY: Final = 60
"""Cells that must differ before it is looked for."""
TRIED: Final = 3
"""Distances that are looked at in full, those first for which most rows speak."""


class Scroll(NamedTuple):
    """Rows ``top`` to ``bottom`` go up by ``lines`` (down for a negative number)."""

    top: int
    bottom: int
    lines: int


def find_scroll(shown: Sequence[Shown], wanted: Sequence[Row]) -> Scroll | None:
    """Return the scroll that spares most of what differs, or ``None``."""
    costs = [_differing(was, row) for was, row in zip(shown, wanted, strict=True)]
    if sum(costs) < MANY:
        return None
    found = [_best(shown, wanted, costs, by) for by in _distances(shown, wanted, costs)]
    spared, scroll = max(found, default=(0, None))
    return scroll if spared >= WORTH else None


def _differing(was: Shown, row: Row) -> int:
    return sum(map(is_not, was, row))


def _distances(shown: Sequence[Shown], wanted: Sequence[Row], costs: list[int]) -> list[int]:
    """Return how far rows seem to have moved, judged by a part of each that has changed."""
    changed = [y for y, cost in enumerate(costs) if cost]
    columns = [x for y in changed for x in _bounds(shown[y], wanted[y])]
    left, right = min(columns), max(columns) + 1
    votes: Counter[int] = Counter()
    for start, end in ((left, (left + right) // 2), ((left + right) // 2, right - 2)):
        places: dict[tuple[object, ...], int] = {}
        for y, row in enumerate(shown):
            places[tuple(row[start:end])] = y
        for y in changed:
            key = tuple(wanted[y][start:end])
            if len(set(key)) > 1 and places.get(key, y) != y:
                votes[places[key] - y] += 1
    return [by for by, count in votes.most_common(TRIED) if count > 1]


def _bounds(was: Shown, row: Row) -> tuple[int, int]:
    flags = list(map(is_not, was, row))
    return flags.index(True), len(flags) - 1 - flags[::-1].index(True)


def _best(
    shown: Sequence[Shown], wanted: Sequence[Row], costs: list[int], by: int
) -> tuple[int, Scroll | None]:
    """Return the rows next to each other that gain most from a scroll by so many lines."""
    gains = [
        cost - _differing(shown[y + by], wanted[y]) if 0 <= y + by < len(shown) else -cost
        for y, cost in enumerate(costs)
    ]
    start = total = 0
    best, place = 0, (0, 0)
    for y, gain in enumerate(gains):
        if total <= 0:
            start, total = y, 0
        total += gain
        if total > best:
            best, place = total, (start, y)
    if not best:
        return 0, None
    top, bottom = (place[0], place[1] + by) if by > 0 else (place[0] + by, place[1])
    bared = range(bottom - by + 1, bottom + 1) if by > 0 else range(top, top - by)
    full = sum(sum(1 for cell in wanted[y] if cell[0] != " ") - costs[y] for y in bared)
    return best - full, Scroll(top, bottom, by)


BEGIN: Final = "\x1b[?2026h"
END: Final = "\x1b[?2026l"
ONE_PIECE: Final = 512
"""Characters that reach a terminal at once: no need to tell it where the frame begins and ends."""
LEAST: Final = 3
"""Rows that must have changed before it is asked whether they have only moved."""
_KEEPS_NONE: Final = ("dumb", "vt", "cons25", "sun", "ansi")
"""Terminals that erase to their own background, whatever the pen's (by the beginning of TERM)."""


def in_gnu_screen(variables: Mapping[str, str]) -> bool:
    """Return whether this is a window of GNU screen, by the environment.

    A program inside both has the variables of both: TERM tells which is the inner one. In doubt it
    is screen, which can do less.
    """
    inner_tmux = bool(variables.get("TMUX")) and variables.get("TERM", "").startswith("tmux")
    return bool(variables.get("STY")) and not inner_tmux


def erases_coloured(variables: Mapping[str, str]) -> bool:
    """Return whether an erased cell gets the pen's background here (terminfo's ``bce``).

    GNU screen does not, whatever TERM says inside it; tmux, which goes by the same name, does.
    """
    term = variables.get("TERM", "")
    if not term or term.startswith(_KEEPS_NONE) or in_gnu_screen(variables):
        return False
    return bool(variables.get("TMUX")) or not term.startswith("screen")


def stage_here(variables: Mapping[str, str]) -> Stage:
    """Return a stage for the terminal that the environment tells of.

    tmux writes a step downwards as a whole place: lines that go down are written row by row there.
    """
    return Stage(erases=erases_coloured(variables), downwards=not variables.get("TMUX"))


class Stage:
    """Takes cells, gives frames. Not for several threads, but ``doubt`` and ``can_repeat``."""

    def __init__(self, *, erases: bool = True, downwards: bool = True) -> None:
        self.wanted = Grid()
        self.doubted = True
        """Whether what the terminal shows is unknown: the next frame is the whole screen."""
        self._shown: list[Shown] = []
        self._touched: set[int] = set()
        self._encoder = Encoder(erases=erases)
        self._repeats = False
        self._downwards = downwards

    def can_repeat(self) -> None:
        """Take it that this terminal knows how to repeat a letter: it has shown that.

        From any thread: a frame that is being made goes on with a copy of its encoder.
        """
        self._repeats = True

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.wanted.width, self.wanted.height

    def resize(self, width: int, height: int) -> None:
        """Take another size; what the terminal then shows is unknown."""
        if (width, height) != self.size:
            self.wanted = self.wanted.resized(width, height)
            self._encoder.width = width
            self.doubt()

    def doubt(self) -> None:
        """Take nothing for granted of what the terminal shows."""
        self.doubted = True

    def put(self, y: int, x: int, cells: Sequence[Cell]) -> None:
        """Want these cells at a place; what lies outside is left out."""
        self.wanted.put(y, x, cells)
        self._touched.add(y)

    def frame(self, cursor: tuple[int, int] | None = None, *, synchronized: bool = False) -> str:
        """Return what makes the terminal show what is wanted, taken as written from now on.

        ``cursor`` is the row and column at which it is left; ``synchronized``: it knows mode 2026.
        """
        whole, self.doubted = self.doubted, False
        if not self.wanted.width or not self.wanted.height:
            return ""
        self._encoder.repeats = self._repeats
        if whole:
            self._clear()
        scroll = None if whole else self._scroll()
        ways = [self._way(None, whole=whole)]
        ways += [self._way(scroll)] if scroll is not None else []
        self._encoder, self._shown = min(ways, key=lambda way: way[0].length)
        self._touched.clear()
        if cursor is not None:
            self._encoder.move(*cursor)
        text = self._encoder.taken()
        return f"{BEGIN}{text}{END}" if synchronized and len(text) > ONE_PIECE else text

    def _way(self, scroll: Scroll | None, *, whole: bool = False) -> tuple[Encoder, list[Shown]]:
        """Return what has written the frame, and what is shown then."""
        encoder, shown, rows = self._encoder.copy(), list(self._shown), self.wanted.rows
        touched = self._touched
        if scroll is not None:
            encoder.scroll(*scroll)
            touched = touched | _moved(shown, scroll, self.wanted.width)
        differing = {}
        for y in sorted(touched):
            if y < len(rows) and shown[y] != rows[y]:
                differing[y] = [x for x, was in enumerate(shown[y]) if was != rows[y][x]]
                shown[y] = rows[y].copy()
        return shortest(encoder, rows, differing, whole=whole, downwards=self._downwards), shown

    def overwritten(self, y: int, count: int) -> str:
        """Return what mends the first cells of a row, over which something else was written."""
        if self.doubted or not 0 <= y < len(self._shown):
            return ""  # the whole screen is painted anyway
        self._shown[y] = [*[None] * count, *self._shown[y][count:]]
        self._touched.add(y)
        self._encoder.y = self._encoder.x = None
        return self.frame()

    def leave(self) -> str:
        """Return what gives the terminal its own pen back; what it shows then is unknown."""
        pen, self._encoder.pen = self._encoder.pen, None
        self.doubt()
        return "" if pen is None else change(pen, PLAIN)

    def _clear(self) -> None:
        """Begin from an empty screen, in the background that most of it has."""
        encoder, wanted = self._encoder, self.wanted
        blanks = Counter(cell for row in wanted.rows for cell in row if cell[0] == " ")
        plain = [cell for cell, _ in blanks.most_common() if not cell[1].marks and not cell[1].link]
        paper = plain[0] if plain and encoder.erases else blank(PLAIN)
        encoder.clear(paper[1])
        self._shown = [[paper] * wanted.width for _ in range(wanted.height)]
        self._touched = set(range(wanted.height))

    def _scroll(self) -> Scroll | None:
        """Return rows that have only moved: those the terminal could move by itself."""
        touched = [y for y in self._touched if y < self.wanted.height]
        if len(touched) < LEAST:
            return None
        top, bottom = min(touched), max(touched) + 1
        found = find_scroll(self._shown[top:bottom], self.wanted.rows[top:bottom])
        return found and Scroll(found.top + top, found.bottom + top, found.lines)


def _moved(shown: list[Shown], scroll: Scroll, width: int) -> set[int]:
    """Move rows; what comes in at the edge is taken for unknown, as terminals differ about it."""
    top, bottom, lines = scroll
    bared: list[Shown] = [[None] * width] * abs(lines)
    if lines > 0:
        shown[top : bottom + 1] = [*shown[top + lines : bottom + 1], *bared]
    else:
        shown[top : bottom + 1] = [*bared, *shown[top : bottom + 1 + lines]]
    return set(range(top, bottom + 1))
