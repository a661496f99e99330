"""In which order the cells of a frame are written: row by row, or pen by pen.

A move takes five to eight bytes and a true colour nineteen: a frame of many short texts in several
colours is shorter when each colour is taken once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cockpit.app.output.cells import Row
from cockpit.app.output.columns import LEAST, find_columns
from cockpit.app.output.encoder import Encoder
from cockpit.app.output.erasing import find_erasures, left_over
from cockpit.app.output.pens import Pen, over_blank

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
    if len(differing) >= LEAST:
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
