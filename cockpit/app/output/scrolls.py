"""Which rows of a frame are rows of the former one, moved up or down together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

from cockpit.app.output.cells import Cell, Row

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
