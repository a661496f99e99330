"""The columns of a chart kept as plain numbers: as values of their own a thousand took 190 kB."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, overload

from cockpit.model.observed import Column

Numbers = tuple["array[int]", "array[int]", "array[float]", "array[float]", "array[float]"]


class PackedColumns(Sequence[Column]):
    """Columns that never change, each made as it is asked for: 8 bytes a figure.

    Raises ``OverflowError`` for a step beyond 63 bits.
    """

    __slots__ = ("_nonfinite", "_numbers")

    def __init__(self, columns: Iterable[Column] = ()) -> None:
        first, last, nonfinite = array("q"), array("q"), array("q")
        low, high, mean = array("d"), array("d"), array("d")
        for column in columns:
            first.append(column[0])
            last.append(column[1])
            low.append(_packed(column[2]))
            high.append(_packed(column[3]))
            mean.append(_packed(column[4]))
            nonfinite.append(column[5])
        self._numbers: Numbers = first, last, low, high, mean
        self._nonfinite: array[int] | None = nonfinite if any(nonfinite) else None

    @classmethod
    def of_rows(cls, steps: array[int], values: array[float]) -> PackedColumns:
        """Return a column for each single row; both arrays are the columns' own from now on."""
        made = cls()
        made._numbers = steps, steps, values, values, values
        return made

    def __len__(self) -> int:
        return len(self._numbers[0])

    def __iter__(self) -> Iterator[Column]:
        first, last, low, high, mean = self._numbers
        if low is mean:  # single rows: each has a figure
            return map(Column, first, last, low, high, mean, repeat(0))
        shown = (map(_shown, each) for each in (low, high, mean))
        return map(Column, first, last, *shown, self._nonfinite or repeat(0))

    @overload
    def __getitem__(self, at: int) -> Column: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Column]: ...

    def __getitem__(self, at: int | slice) -> Column | Sequence[Column]:
        if isinstance(at, slice):
            return tuple(self)[at]
        first, last, low, high, mean = (each[at] for each in self._numbers)
        bad = self._nonfinite[at] if self._nonfinite else 0
        return Column(int(first), int(last), _shown(low), _shown(high), _shown(mean), bad)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedColumns):
            return self is other or self._bytes == other._bytes
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    @property
    def _bytes(self) -> tuple[bytes, ...]:
        """All that they are; by it also what is no number equals itself."""
        every: tuple[array[Any] | None, ...] = (*self._numbers, self._nonfinite)
        return tuple(b"" if each is None else each.tobytes() for each in every)


def _packed(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _shown(figure: float) -> float | None:
    return figure if figure == figure else None  # noqa: PLR0124 - not a number: there is none
