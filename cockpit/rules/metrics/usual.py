"""What is usual for a metric: calm rows, folded many at a time, and excursions from its level."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.model.base import Frozen
from cockpit.model.observed import Row
from cockpit.model.trend import Excursion

BLOCK: Final = 48
"""Rows that are folded together at most."""
FEWEST: Final = 8
"""Rows that are worth it."""
SIDE_METRICS: Final = ("grad_norm", "z_loss", "router_loss", "router_entropy")


class SoundColumns(NamedTuple):
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

    def first(self, count: int) -> SoundColumns:
        """Return the first rows of them."""
        told = self.throughputs
        return SoundColumns(
            self.rows[:count],
            self.steps[:count],
            self.ats[:count],
            self.losses[:count],
            None if told is None else told[:count],
            {name: column[:count] for name, column in self.beside.items()},
            self.lrs[:count],
            self.batch,
        )


def sound_columns(rows: Sequence[Row]) -> SoundColumns | None:
    """Return rows by columns; ``None`` where some are not like the others, or not sound."""
    steps, ats, losses, rates, norms, _, *others, skipped, lrs, batches, _ = zip(*rows, strict=True)
    if None in steps or None in ats or not _sound(losses) or 0.0 in losses:
        return None
    if has_value(skipped):
        return None
    beside = dict(zip(SIDE_METRICS, (norms, *others), strict=True))
    beside = {name: column for name, column in beside.items() if has_value(column)}
    told = rates if has_value(rates) else None
    if not all(map(_sound, beside.values())) or not (told is None or _sound(told)):
        return None
    if batches.count(batches[0]) < len(batches):
        return None
    return SoundColumns(rows, steps, ats, losses, told, beside, lrs, batches[0])


def has_value(column: Sequence[float | None]) -> bool:
    """Tell whether some row has a value."""
    return column.count(None) < len(column)


def _sound(column: Sequence[float]) -> bool:
    return None not in column and isfinite(sum(column))


def until_above(values: Sequence[float], bound: float, count: int) -> int:
    """Return how many of the first ``count`` values are not above a bound."""
    if max(values[:count], default=bound) <= bound:
        return count
    return next(at for at, value in enumerate(values) if value > bound)


NORMAL: Final = 1.4826
"""Standard deviations of a normal distribution in one of its median absolute deviations."""


FADES: Final = 1 - 1 / 2000
"""What is left of a sway with each row."""


class Sway:
    """How far a level has lately risen and come back: one of an adversary's loss does so always."""

    def __init__(self, far: float, trough: float | None, peak: float | None, rows: int = 1) -> None:
        self.far, self.trough, self.peak = far, trough, peak
        self._fades = FADES**rows

    def follow(self, levels: Sequence[float]) -> None:
        """Follow the level's rise, ``rows`` further with each; what came back by half is a sway."""
        far, trough, peak = self.far, self.trough, self.peak
        for level in levels:
            far *= self._fades
            if trough is None or peak is None:
                trough = peak = level
            elif level > peak:
                peak = level
            elif level <= (trough + peak) / 2:
                far = max(far, peak - trough)
                trough = peak = level
        self.far, self.trough, self.peak = far, trough, peak


V = TypeVar("V", bound=Frozen)


def state_of(kind: type[Frozen], fold: object, but: Collection[str] = ()) -> dict[str, Any]:
    """Return what a fold has of a value's fields, by their names; lists as tuples."""
    held = {name: getattr(fold, name) for name in kind.model_fields if name not in but}
    lists = {name: tuple(each) for name, each in held.items() if isinstance(each, list | deque)}
    return held | lists


def frozen(kind: type[V], fold: object, **others: object) -> V:
    """Return the value of a fold, whose attributes are its fields but for ``others``."""
    return kind(**state_of(kind, fold, others), **others)


class ExcursionFold:
    """Accumulates an ``Excursion``; what is beyond the limit is for its heirs to say.

    One opens after ``rows`` rows in a row beyond the limit and is over after as many within it.
    Its rows do not enter the window of ``size`` rows; those of a bump that was too short do, late,
    for leaving them out would make what is usual of a noisy metric too narrow.
    """

    def __init__(self, seen: Excursion, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self.order = deque(seen.window)
        self.ranked = sorted(seen.window)
        self.above, self.calm, self.is_open = seen.above, seen.calm, seen.is_open
        self.level, self.since = seen.level, seen.since
        self.step, self.peak = seen.step, seen.peak
        self.pending = list(seen.pending)

    def resume(self, row: Row) -> None:
        """Start again where training goes back to before an excursion.

        The steps that are replayed were never of one trajectory with what came after them. Where
        training goes on from within it, nothing of it is over.
        """
        if self.step is not None and row.step is not None and row.step > self.step:
            return
        self.forget()

    def forget(self) -> None:
        """Start again."""
        self.order.clear()
        self.ranked.clear()
        self.pending = []
        self._over()

    def within(self, value: float) -> None:
        """Take a value that is within the limit."""
        if self.above:
            self.calm += 1
            if not self.is_open or self.calm >= self.rows:
                for bump in self.pending:
                    self._insert(bump)
                self.pending = []
                self._over()
        self.order.append(value)  # as ``_insert``: every row ends here, and a call is dear
        insort(self.ranked, value)
        if len(self.ranked) > self.size:
            del self.ranked[bisect_left(self.ranked, self.order.popleft())]

    def beyond(self, row: Row, value: float, level: float, further: bool) -> None:
        """Take a value beyond the limit; ``further``: no value of this excursion was as far."""
        if self.above == 0:
            self.level, self.since, self.step, self.peak = level, row.at, row.step, value
        self.above += 1
        self.calm = 0
        self.peak = value if further else self.peak
        self.is_open = self.is_open or self.above >= self.rows
        if self.is_open:
            self.pending = []
        else:
            self.pending.append(value)

    def _insert(self, value: float) -> None:
        self.order.append(value)
        insort(self.ranked, value)
        if len(self.order) > self.size:
            del self.ranked[bisect_left(self.ranked, self.order.popleft())]

    def _over(self) -> None:
        self.above = self.calm = 0
        self.is_open = False
        self.level = self.since = self.step = self.peak = None
