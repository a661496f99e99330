"""C-10, instability: gradient norm, z-loss and router metrics by their robust z-score.

The score of a value is its distance from the median of the window in units of 1.4826 x MAD, the
median absolute deviation made to agree with a normal distribution's standard deviation (Iglewicz
and Hoaglin, How to Detect and Handle Outliers, 1993): half of the window may be wild.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final, Literal

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import MetricTrend
from cockpit.rules import present
from cockpit.rules.metrics.usual import NORMAL, ExcursionFold, SoundColumns, frozen

ENOUGH: Final = 50
"""Rows needed before anything is usual."""
LEAST: Final = 0.05
"""Share of the median below which a norm's scatter never counts: one that is clipped has none."""
FIGURES: Final = 0.0005
"""The same for a metric that has a bound: half of the third figure, to which some round it.

Close to its bound (an entropy below the log of the experts, a balance loss above 1) a healthy one
moves by a few thousandths: a share of its value would be most of what it can lose.
"""
BOUNDED: Final = frozenset(("router_loss", "router_entropy"))
"""Metrics that have a bound, near to which they stand while all is well (SPEC C-10)."""
NEAR: Final = 12
"""Rows within which the quartiles of a window surely stay near to where they are."""
SETTLED: Final = 10
"""Windows after which a level that has stood for so long is the usual one."""

Metric = Literal["grad_norm", "z_loss", "router_loss", "router_entropy"]
METRICS: Final[tuple[Metric, ...]] = ("grad_norm", "z_loss", "router_loss", "router_entropy")
FALLS: Final = frozenset(("router_entropy",))
"""Metrics that go wrong downwards: a router that picks the same experts for all has no entropy."""
NAMES: Final[dict[str, str]] = {
    "grad_norm": "grad norm",
    "z_loss": "z-loss",
    "router_loss": "router loss",
    "router_entropy": "router entropy",
}


class StabilityFold(ExcursionFold):
    """Accumulates the ``MetricTrend`` of one metric.

    Values of the warm-up count for nothing, nor do those that are not finite (C-09) or have no
    step. A level that has stood for ``SETTLED`` windows is what is usual from then on.
    """

    def __init__(self, seen: MetricTrend, run: RunSpec) -> None:
        limits = run.thresholds
        super().__init__(seen, limits.instability_rows, limits.instability_window)
        self.metric, self.sigma = seen.metric, seen.sigma
        self._z, self._warm = limits.instability_z, run.warmup_steps
        self._floor = FIGURES if seen.metric in BOUNDED else LEAST
        self._least = self._floor * self._z
        self._enough = min(ENOUGH, self.size)
        self._sign = -1.0 if seen.metric in FALLS else 1.0

    def add(self, row: Row, value: float) -> None:
        """Take one row and its value of the metric."""
        step = row.step
        if step is None or step < self._warm or not isfinite(value):
            return
        count = len(self.ranked)
        if count >= self._enough:
            middle = self.ranked[count // 2]
            beyond = self._sign * (value - middle)
            if beyond > self._least * abs(middle) and self._is_far(beyond, middle):
                further = self.peak is None or self._sign * (value - self.peak) > 0
                self.beyond(row, value, middle, further)
                if self.above >= SETTLED * self.size:
                    self.forget()
                return
        self.within(value)

    def sure(self, values: Sequence[float], first: int, count: int) -> int:
        """Return before how many of the first ``count`` values it surely does not open.

        ``first``: the step of the first. With each row the median moves by one place of the window
        at most, beside what is pending; it opens only after values in a row beyond the limit.
        """
        far, middle = len(values) + len(self.pending), self.size // 2
        if self.is_open or first < self._warm or self._least >= 1:
            return 0
        if len(self.ranked) != self.size or far >= middle:
            return 0
        bound, run = self._bound(far), self.above
        for at, value in enumerate(values[:count]):
            run = run + 1 if self._sign * value > bound else 0
            if run >= self.rows:
                return at
        return count

    def take(self, rows: Sequence[Row], values: Sequence[float]) -> None:
        """Take rows as ``add`` does each, of which it is sure that none opens."""
        sign, ranked, order = self._sign, self.ranked, self.order
        for first in range(0, len(values), NEAR):
            some = values[first : first + NEAR]
            bound = self._bound(len(some) + len(self.pending))
            if self.above or sign * (max if sign > 0 else min)(some) > bound:
                for row, value in zip(rows[first:], some, strict=False):
                    self.add(row, value)
                continue
            order.extend(some)  # as ``within``
            for value in some:
                insort(ranked, value)
                del ranked[bisect_left(ranked, order.popleft())]

    def _bound(self, far: int) -> float:
        """Return up to where (times the sign) no value is beyond what is usual.

        Of a whole window, whose median and quartiles move by ``far`` places at most: no value is
        far whose distance is no more than the least that ``_is_far`` can make of them.
        """
        ranked, size = self.ranked, self.size
        low, high = ranked[size // 2 - far], ranked[size // 2 + far]
        near = min(ranked[(3 * size) // 4 - far] - high, low - ranked[size // 4 + far])
        nearest = low if self._sign > 0 else high
        return self._sign * nearest + max(self._least * abs(nearest), self._z * NORMAL * near)

    def _is_far(self, beyond: float, middle: float) -> bool:
        """Tell whether a distance has a score above the limit; the MAD is dear, so it comes last.

        The MAD is at least the smaller of the distances from the median to the two quartiles.
        """
        ranked, count = self.ranked, len(self.ranked)
        least = self._floor * abs(middle)
        near = min(ranked[(3 * count) // 4] - middle, middle - ranked[count // 4])
        if beyond <= self._z * max(NORMAL * near, least):
            return False
        sigma = max(NORMAL * deviation(ranked, middle), least)
        if self.above == 0:
            self.sigma = sigma
        return sigma > 0 and beyond > self._z * sigma

    def freeze(self) -> MetricTrend:
        """Return the value."""
        return frozen(MetricTrend, self, window=tuple(self.order))


def deviation(ranked: Sequence[float], middle: float) -> float:
    """Return the median absolute deviation from ``middle`` of sorted values."""
    distances = sorted(abs(value - middle) for value in ranked)
    return distances[len(distances) // 2]


class Stabilities:
    """The folds of all metrics that a run logs; each begins with its first value."""

    def __init__(self, seen: Sequence[MetricTrend], run: RunSpec) -> None:
        self._run = run
        self.folds: dict[str, StabilityFold] = {
            each.metric: StabilityFold(each, run) for each in seen
        }
        self.opened = self._opened()
        """The metrics that are beyond what is usual."""

    def add(self, row: Row, resumed: bool) -> None:
        """Take one row; ``resumed`` tells that its step went back."""
        if resumed:
            for fold in self.folds.values():
                fold.resume(row)
            self.opened = self._opened()
        if row.grad_norm is not None:
            self._take("grad_norm", row, row.grad_norm)
        if row.z_loss is not None:
            self._take("z_loss", row, row.z_loss)
        if row.router_loss is not None:
            self._take("router_loss", row, row.router_loss)
        if row.router_entropy is not None:
            self._take("router_entropy", row, row.router_entropy)

    def sure(self, rows: SoundColumns, count: int) -> int:
        """Return of how many of the first ``count`` rows it is sure that no metric opens."""
        if rows.beside and self.opened:
            return 0
        for metric, values in rows.beside.items():
            fold = self.folds.get(metric)
            count = 0 if fold is None else fold.sure(values, rows.steps[0], count)
        return count

    def take(self, rows: SoundColumns) -> None:
        """Take such rows."""
        for metric, values in rows.beside.items():
            self.folds[metric].take(rows.rows, values)

    def _take(self, metric: Metric, row: Row, value: float) -> None:
        fold = self.folds.get(metric)
        if fold is None:
            fold = self.folds[metric] = StabilityFold(MetricTrend(metric=metric), self._run)
        was_open = fold.is_open
        fold.add(row, value)
        if fold.is_open is not was_open:
            self.opened = self._opened()

    def _opened(self) -> tuple[str, ...]:
        return tuple(metric for metric, fold in self.folds.items() if fold.is_open)

    def freeze(self) -> tuple[MetricTrend, ...]:
        """Return the values, in the order of ``METRICS``."""
        return tuple(self.folds[name].freeze() for name in METRICS if name in self.folds)


def unstable(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-10: a metric of training's stability has left what is usual, and has not come back."""
    found = [each for each in history.trend.stability if each.is_open and each.level is not None]
    if not found:
        return
    starts = [each.since for each in found if each.since is not None]
    yield present.row_alert(
        history,
        key=f"C-10:{run.name}",
        title=f"Unstable: {_title(found[0])}",
        since=min(starts, default=None),
        lines=[_excursion_text(each, run) for each in found],
        next_action=f"{wording.escalate(run)}: it is numerical, a relaunch will not fix it;"
        " check learning rate, data and the last checkpoint",
    )


def _title(found: MetricTrend) -> str:
    way = "fell to" if found.metric in FALLS else "rose to"
    return (
        f"{NAMES[found.metric]} {way} {wording.figure(found.peak or 0.0)},"
        f" usual is {wording.figure(found.level or 0.0)}"
    )


def _excursion_text(found: MetricTrend, run: RunSpec) -> str:
    level, sigma, peak = found.level or 0.0, found.sigma or 0.0, found.peak or 0.0
    score = f"{abs(peak - level) / sigma:.0f}" if sigma > 0 else "many"
    limit = wording.figure(run.thresholds.instability_z)
    return (
        f"{NAMES[found.metric]}: {found.above} logged rows beyond a robust z-score of {limit}"
        f" since step {wording.step(found.step)}; furthest {wording.figure(peak)} (z {score}),"
        f" median {wording.figure(level)} of {len(found.window)} rows"
    )
