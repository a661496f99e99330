"""Rows in which nothing happens, by columns: they are folded many at a time.

Nearly all rows of nearly all histories change no rule's mind, and a call for each fold of each row
is what costs. Each fold tells of how many of the next rows that is sure (``sure``), from bounds
that its state can pass in no order of values; then it takes them together, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, NamedTuple

from cockpit.model.observed import Row

BLOCK: Final = 48
"""Rows that are folded together at most."""
FEWEST: Final = 8
"""Rows that are worth it."""
BESIDE: Final = ("grad_norm", "z_loss", "router_loss", "router_entropy")


class Calm(NamedTuple):
    """The columns of rows that each have a step, a time and a sound loss.

    A metric of ``beside`` (C-10) and ``throughputs`` are there where every row has a sound one.
    """

    rows: Sequence[Row]
    steps: Sequence[int]
    ats: Sequence[float]
    losses: Sequence[float]
    throughputs: Sequence[float] | None
    beside: Mapping[str, Sequence[float]]
    lrs: Sequence[float | None]
    batch: float | None
    """That of every row."""

    def first(self, count: int) -> Calm:
        """Return the first rows of them."""
        told = self.throughputs
        return Calm(
            self.rows[:count],
            self.steps[:count],
            self.ats[:count],
            self.losses[:count],
            None if told is None else told[:count],
            {name: column[:count] for name, column in self.beside.items()},
            self.lrs[:count],
            self.batch,
        )


def calm_rows(rows: Sequence[Row]) -> Calm | None:
    """Return rows by columns; ``None`` where some are not like the others, or not sound."""
    steps, ats, losses, rates, norms, _, *others, skipped, lrs, batches = zip(*rows, strict=True)
    if None in steps or None in ats or not _sound(losses) or 0.0 in losses or any_told(skipped):
        return None
    beside = dict(zip(BESIDE, (norms, *others), strict=True))
    beside = {name: column for name, column in beside.items() if any_told(column)}
    told = rates if any_told(rates) else None
    if not all(map(_sound, beside.values())) or not (told is None or _sound(told)):
        return None
    if batches.count(batches[0]) < len(batches):
        return None
    return Calm(rows, steps, ats, losses, told, beside, lrs, batches[0])


def any_told(column: Sequence[float | None]) -> bool:
    """Tell whether some row has a value."""
    return column.count(None) < len(column)


def _sound(column: Sequence[float]) -> bool:
    return None not in column and isfinite(sum(column))


def until_above(values: Sequence[float], bound: float, count: int) -> int:
    """Return how many of the first ``count`` values are not above a bound."""
    if max(values[:count], default=bound) <= bound:
        return count
    return next(at for at, value in enumerate(values) if value > bound)
