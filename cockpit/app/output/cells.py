"""Text as cells: one for each column, of a wide character one with it and an empty one.

Equal cells are one object, as long as the table holds: lines are compared by identity first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, TypeAlias

from rich.cells import cell_len, split_graphemes

from cockpit.app.output.pens import PLAIN, Pen, on_blank

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


def runs_of(row: Iterable[Cell]) -> Iterator[tuple[str, Pen]]:
    """Yield a row's texts with their pens: what ``cells_of`` makes the same cells of."""
    for pen, cells in groupby(row, key=lambda cell: cell[1]):
        yield "".join(letter for letter, _ in cells), pen


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
