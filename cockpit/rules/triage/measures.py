"""Proof that a run moves where no word tells a step: a measure that comes again, and has changed.

Trainers call their steps what they like, and many print none. What they measure has few names: a
loss, a reward, an accuracy. A line that comes again with another such figure was written by work,
and so was a row of a table below the name of one. Where a log has none of it, what goes up of a
count (``400/3161``, ``86.18%``) is work, unless it counts tries or what is in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.rows import words

Measures = Mapping[str, Sequence[tuple[int, str]]]
"""By the shape of its lines, the (index, figure) of what is measured, oldest first."""
Told = tuple[int, str, str]
"""A line's index, its shape, and the figure."""

MEASURE: Final = words("measure")
_NAME: Final = words("measure_name")
_COUNT: Final = words("count")
_NO_COUNT: Final = words("no_count")
_FIGURE: Final = late_regex(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.I)
_BLANKS: Final = late_regex(r"\s+")
_ROW: Final = late_regex(
    r"[\s|]*(?:(?:[-+]?\d[\d.:e+-]{0,40}%?|nan|-?inf|-|#na#)(?:[\s|,;]+|$)){2,}", re.I
)
"""A line of figures alone, as a table has them."""
_CELLS: Final = late_regex(r"\s*[|,;]\s*|\t\s*| {2,}|(?<=[\d.%-])\s+")
_EVALUATION: Final = late_regex(
    r"(?<![a-z])(?:val|valid(?:at\w+)?|eval\w*|test\w*|dev|sampl\w*|infer\w*)(?![a-z])", re.I
)
LONGEST: Final = 300
"""Characters in which a count is looked for."""
ABOVE: Final = 3
"""Lines above a table's first row among which its head is looked for."""


def named(lines: Sequence[str], where: Sequence[int]) -> Iterator[Told]:
    """Yield (index, shape, figure) of the lines ``where`` that name a measure."""
    for index in where:
        found = MEASURE.search(lines[index])
        if found is not None:
            yield index, shape_of(lines[index]), found["measure"]


def is_row(line: str) -> bool:
    """Tell whether a line may be a row of a table of figures."""
    return _ROW.fullmatch(line) is not None


def tabled(lines: Sequence[str], where: Sequence[int]) -> Iterator[Told]:
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


def counted(lines: Sequence[str], where: Iterable[int]) -> Iterator[Told]:
    """Yield (index, shape, count) of the lines ``where`` whose count goes up, or begins again."""
    found: dict[str, list[tuple[int, str]]] = {}
    for index in where:
        told = _COUNT.search(lines[index][:LONGEST])
        if told is not None and not _NO_COUNT.search(lines[index][:LONGEST]):
            count = told["count"] or told["share"]
            found.setdefault(shape_of(lines[index]), []).append((index, count))
    for shape, each in found.items():
        counts = [float(count) for _, count in each]
        if all(now >= before or now <= before / 2 for before, now in pairwise(counts)):
            yield from ((index, shape, count) for index, count in each)


def of_training(shape: str) -> bool:
    """Tell whether lines of a shape may be of the training itself, not of an evaluation alone."""
    return "train" in shape.lower() or _EVALUATION.search(shape) is None


def moving(told: Iterable[Told]) -> Measures:
    """Return what is told more than once, each time otherwise, by the shape of its lines."""
    found: dict[str, list[tuple[int, str]]] = {}
    for index, shape, figure in told:
        found.setdefault(shape, []).append((index, figure))
    return {shape: each for shape, each in found.items() if len({f for _, f in each}) > 1}


def shape_of(line: str) -> str:
    """Return a line without its figures."""
    return _BLANKS.sub(" ", _FIGURE.sub("0", line))
