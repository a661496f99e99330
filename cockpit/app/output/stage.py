"""The output stage: what is wanted on the screen and what it shows; a frame is the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.app.output.cells import Cell, blank
from cockpit.app.output.encoder import Encoder
from cockpit.app.output.grid import Grid
from cockpit.app.output.orders import shortest
from cockpit.app.output.pens import PLAIN, change
from cockpit.app.output.scrolls import Scroll, Shown, find_scroll

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
