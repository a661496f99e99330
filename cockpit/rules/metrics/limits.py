"""C-27: a metric past its limit, one of the run file's or one that is usual for its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.own_rules import EVALUATION, MFU, SKIPPED, LimitSpec
from cockpit.model.run import RunSpec, limits_of
from cockpit.model.trend import LimitTrend
from cockpit.rules import present
from cockpit.rules.metrics.usual import NORMAL, frozen

BASELINE: Final = 20
"""Values whose median is a level that a metric has held."""
NEWEST: Final = 100
FEWEST: Final = 4
"""Values that tell how a metric wavers; below so few nothing is known of it."""
DEVIATIONS: Final = 8.0
"""Robust standard deviations above its best value that are no rise: the best was a lucky one."""


class LimitFold:
    """Accumulates the ``LimitTrend`` of one metric."""

    def __init__(self, seen: LimitTrend, limit: LimitSpec, warm: int) -> None:
        self._limit, self._warm = limit, warm
        self._take(seen)

    def _take(self, seen: LimitTrend) -> None:
        self.metric = seen.metric
        self.times, self.block = list(seen.times), list(seen.block)
        self.best, self.bound, self.count = seen.best, seen.bound, seen.count
        self.since, self.step, self.value = seen.since, seen.step, seen.value
        self.is_open, self.evaluated = seen.is_open, seen.evaluated

    def add(self, row: Row, value: float) -> None:
        """Take a value of the metric, or a skipped step of that limit."""
        if row.step is not None and row.step < self._warm:
            return
        if not isfinite(value):  # C-09 says that
            return
        if self.metric == MFU and value <= 0:  # an evaluation, or a start: not measured
            return
        if self.metric == EVALUATION:
            former, self.evaluated = self.evaluated, row.step
            if row.step and row.step == former:  # another data set: the first one is compared
                return
        bound = self._bound_now()
        if bound is not None and self._is_past(value, bound):
            if self.count == 0:
                self.since, self.step = row.at, row.step
            self.count, self.bound, self.value = self.count + 1, bound, value
            self.is_open = self.is_open or self._lasts(row)
            return
        self.count, self.is_open = 0, False
        self.since = self.step = self.bound = None
        self.value = value
        self._learn(value)

    def calm(self, values: Sequence[float]) -> bool:
        """Tell whether none of the next values is past the limit, whatever is learned of them.

        What is learned moves the bound of a relative limit: the values are held against the
        tightest that it can come to.
        """
        if self.count or self.is_open or not all(map(isfinite, values)):
            return False
        limit, known = self._limit, [] if self.best is None else [self.best]
        if limit.above is not None:
            return max(values) <= limit.above
        if limit.below is not None:
            return min(values) >= limit.below
        if limit.above_best is not None:
            least = min([*known, *values])
            fine = least >= 0 or limit.above_best < 1
            return fine and max(values) <= least + limit.above_best * abs(least)
        return min(values) >= max([*known, *values]) * (limit.below_usual or 0.0)

    def count_skip(self, row: Row, skipped: bool) -> None:
        """Take a row that tells whether its optimizer step was left out."""
        least, span = self._limit.rows, self._limit.for_
        at, last = row.at, self.value
        self.value = row.skipped
        if at is None or (row.step is not None and row.step < self._warm):
            return
        if row.skipped == last and row.grad_norm is None:
            skipped = False  # a flag once more, or a count of all that stands: nobody knows
        times = [*self.times, at] if skipped else self.times
        self.times = [each for each in times if 0 <= at - each <= span][-least:]
        many = len(self.times) >= least
        if many and not self.is_open:
            self.since, self.step = self.times[0], row.step
        self.is_open, self.count = many, len(self.times)

    def went_back(self, row: Row) -> None:
        """Begin anew where training goes back: what came after has not happened any more."""
        if self.step is None or row.step is None or row.step <= self.step or not self.is_open:
            self._take(LimitTrend(metric=self.metric))

    def _bound_now(self) -> float | None:
        limit = self._limit
        if limit.above is not None or limit.below is not None:
            return limit.above if limit.above is not None else limit.below
        if self.best is None:
            return None
        if limit.above_best is not None and len(self.block) < FEWEST:
            return None
        if limit.above_best is not None:
            return self.best + max(limit.above_best * abs(self.best), self._scatter())
        return self.best * (limit.below_usual or 0.0)

    def _is_past(self, value: float, bound: float) -> bool:
        upwards = self._limit.above is not None or self._limit.above_best is not None
        return value > bound if upwards else value < bound

    def _scatter(self) -> float:
        """Return by how much a metric that only wavers is at times above its best value."""
        changes = sorted(abs(later - value) for value, later in pairwise(self.block))
        return float(DEVIATIONS * NORMAL * changes[len(changes) // 2] / 2**0.5)

    def _lasts(self, row: Row) -> bool:
        """Tell whether it has been past its limit for as many values, and for as long."""
        known = row.at is not None and self.since is not None
        lasted = known and (row.at or 0.0) - (self.since or 0.0) >= self._limit.for_
        return self.count >= self._limit.rows and (lasted or self._limit.for_ == 0)

    def _learn(self, value: float) -> None:
        if self._limit.above_best is not None:
            self.best = value if self.best is None else min(self.best, value)
            self.block = [*self.block, value][-NEWEST:]
        elif self._limit.below_usual is not None:
            self.block.append(value)
            if len(self.block) == BASELINE:
                level = median(self.block)
                self.best = level if self.best is None else max(self.best, level)
                self.block = []

    def freeze(self) -> LimitTrend:
        """Return the value."""
        return frozen(LimitTrend, self)


class Limits:
    """The folds of all metrics that have a limit; each begins with its first value."""

    def __init__(self, seen: tuple[LimitTrend, ...], run: RunSpec) -> None:
        self._warm = run.warmup_steps
        self._limits: Mapping[str, LimitSpec] = {each.metric: each for each in limits_of(run)}
        kept = (each for each in seen if each.metric in self._limits)
        self._folds = {each.metric: self._fold(each) for each in kept}
        self.opened = self._opened()
        """The metrics that are past their limit."""

    def _fold(self, seen: LimitTrend) -> LimitFold:
        limit = self._limits[seen.metric]
        return LimitFold(seen, limit, 0 if limit.is_absolute else self._warm)

    def add(self, row: Row, resumed: bool, skipped: bool) -> None:
        """Take one row; ``resumed`` tells that its step went back."""
        if resumed:
            for fold in self._folds.values():
                fold.went_back(row)
        if row.skipped is not None:
            self._of(SKIPPED).count_skip(row, skipped)
        for metric, value in row.limited or ():
            if metric in self._limits:
                self._of(metric).add(row, value)
        self.opened = self._opened()

    def sure(self, rows: Sequence[Row], count: int) -> int:
        """Return of how many of the next ``count`` rows it is sure that they are within limits."""
        values: dict[str, list[float]] = {}
        for row in rows[:count]:
            for metric, value in row.limited or ():
                if metric in self._limits:
                    values.setdefault(metric, []).append(value)
        for metric, own in values.items():
            fold = self._folds.get(metric) or self._fold(LimitTrend(metric=metric))
            if not fold.calm(own):
                return 0
        return count

    def take(self, rows: Sequence[Row]) -> None:
        """Take such rows."""
        for row in rows:
            for metric, value in row.limited or ():
                if metric in self._limits:
                    self._of(metric).add(row, value)

    def _of(self, metric: str) -> LimitFold:
        fold = self._folds.get(metric)
        if fold is None:
            fold = self._folds[metric] = self._fold(LimitTrend(metric=metric))
        return fold

    def _opened(self) -> tuple[str, ...]:
        return tuple(metric for metric, fold in self._folds.items() if fold.is_open)

    def freeze(self) -> tuple[LimitTrend, ...]:
        """Return the values."""
        return tuple(fold.freeze() for fold in self._folds.values())


def past_limit(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-27: a metric is past its limit."""
    limits = {each.metric: each for each in limits_of(run)}
    for found in history.trend.limits:
        limit = limits.get(found.metric)
        if limit is None or not found.is_open:
            continue
        yield present.row_alert(
            history,
            key=f"C-27:{run.name}:{found.metric}",
            severity=Severity(limit.severity),
            title=_title(limit, found),
            since=found.since,
            lines=[_text(limit, found)],
            next_action=limit.advice or f"see what changed at step {wording.step(found.step)}",
        )


def _title(limit: LimitSpec, found: LimitTrend) -> str:
    if limit.metric == SKIPPED:
        return f"{found.count} optimizer steps skipped within {wording.span(limit.for_)}"
    way = "above" if found.value is not None and found.value > (found.bound or 0.0) else "below"
    name = wording.sentence(limit.metric)
    return f"{name} is {_figure(found.value)}, {way} its limit {_figure(found.bound)}"


def _text(limit: LimitSpec, found: LimitTrend) -> str:
    since = f"since step {wording.step(found.step)}"
    if limit.metric == SKIPPED:
        return f"at least {limit.rows} within {wording.span(limit.for_)}; {since}"
    if limit.is_absolute:
        return f"{found.count} values in a row past {_figure(found.bound)} {since}"
    what = "best" if limit.above_best is not None else "usual level"
    return f"{found.count} values in a row {since}; its {what} was {_figure(found.best)}"


def _figure(value: float | None) -> str:
    return "?" if value is None else wording.figure(value)
