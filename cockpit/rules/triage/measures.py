"""Proof that a run moves where no word tells a step: a measure that comes again, and has changed.

Trainers call their steps what they like, and many print none. What they measure has few names: a
loss, a reward, an accuracy. A line that comes again with another such figure was written by work,
and so was a row of a table below the name of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.rows import words

Measures = Mapping[str, Sequence[tuple[int, str]]]
"""By the shape of its lines, the (index, figure) of a measure, oldest first."""

MEASURE: Final = words("measure")
_NAME: Final = words("measure_name")
_FIGURE: Final = late_regex(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.I)
_BLANKS: Final = late_regex(r"\s+")
_ROW: Final = late_regex(
    r"[\s|]*(?:(?:[-+]?\d[\d.:e+-]{0,40}%?|nan|-?inf|-|#na#)(?:[\s|,;]+|$)){2,}", re.I
)
"""A line of figures alone, as a table has them."""
_CELLS: Final = late_regex(r"\s*[|,;]\s*|\t\s*| {2,}|(?<=[\d.%-])\s+")
ABOVE: Final = 3
"""Lines above a table's first row among which its head is looked for."""


def named(lines: Sequence[str], where: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Yield (index, shape, figure) of the lines ``where`` that name a measure."""
    for index in where:
        found = MEASURE.search(lines[index])
        if found is not None:
            yield index, shape_of(lines[index]), found["measure"]


def is_row(line: str) -> bool:
    """Tell whether a line may be a row of a table of figures."""
    return _ROW.fullmatch(line) is not None


def tabled(lines: Sequence[str], where: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Yield (index, shape, figure) of rows ``where`` that stand below the name of a measure.

    Each shape of rows has the head that stands above the first of them.
    """
    columns: dict[str, Sequence[int]] = {}
    for index in where:
        cells = _cells(lines[index])
        shape = f"row of {len(cells)}"
        if shape not in columns:
            columns[shape] = _columns(lines[max(0, index - ABOVE) : index], len(cells))
        if columns[shape]:
            yield index, shape, " ".join(cells[at] for at in columns[shape])


def _columns(above: Sequence[str], cells: int) -> Sequence[int]:
    """Return the columns that are named as measures."""
    heads = [head for line in reversed(above) if len(head := _cells(line)) == cells]
    named_so = ([at for at, head in enumerate(each) if _NAME.search(head)] for each in heads)
    return next(filter(None, named_so), ())


def _cells(line: str) -> list[str]:
    return _CELLS.split(line.strip("| \t\r"))


def shape_of(line: str) -> str:
    """Return a line without its figures."""
    return _BLANKS.sub(" ", _FIGURE.sub("0", line))
