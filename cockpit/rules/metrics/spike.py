"""C-11, loss spike: the loss against the median of the newest rows that were not a spike."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import LossTrend
from cockpit.rules.metrics.climb import FLOOR, loss_alert, loss_climb

WINDOW = 200
"""Rows that the trend is the median of."""

ENOUGH = 20
"""Rows needed before there is a trend at all."""


class SpikeFold:
    """Accumulates a ``LossTrend``.

    The limit is ``trend + loss_spike x max(|trend|, spread)``, the spread being twice the
    window's interquartile range: for a loss well above zero that is "50 % above", and near
    or below zero it still asks for an excursion that is large against what is usual. A spike
    opens after ``spike_rows`` rows in a row above the limit and is over after as many at or
    below it. Its rows do not enter the window; those of a bump that was too short do, late,
    for leaving them out would pull the trend of a noisy loss down. Rows without a finite loss
    count for nothing. A loss near zero moves freely: ``|trend|`` never counts below a share of
    the early level. Where training goes back to before an excursion the trend begins anew: the
    steps that are replayed were never of one trajectory with what came after them.
    """

    def __init__(self, trend: LossTrend, run: RunSpec) -> None:
        self.share, self.rows = run.thresholds.loss_spike, run.thresholds.spike_rows
        self.order = deque(trend.window)
        self.ranked = sorted(trend.window)
        self.above, self.calm, self.is_open = trend.above, trend.calm, trend.is_open
        self.level, self.since = trend.level, trend.since
        self.step, self.peak = trend.step, trend.peak
        self.pending = list(trend.pending)
        self.early = trend.early

    def add(self, row: Row, resumed: bool, loss: float | None) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back."""
        if resumed and not self._inside(row):
            self._begin_anew()
        if loss is None or not math.isfinite(loss):
            return
        count = len(self.ranked)
        if count >= ENOUGH:
            ranked = self.ranked
            middle = ranked[count // 2]
            if self.early is None:
                self.early = middle
            if loss > middle + self.share * abs(middle) and loss > self._limit(middle, self.early):
                self._rise(row, loss, middle)
                return
        if self.above:
            self._settle()
        self._insert(loss)

    def _limit(self, middle: float, early: float) -> float:
        ranked, count = self.ranked, len(self.ranked)
        spread = 2 * (ranked[(3 * count) // 4] - ranked[count // 4])
        return middle + self.share * max(abs(middle), spread, FLOOR * abs(early))

    def _inside(self, row: Row) -> bool:
        """Tell whether training goes on from within the excursion: then nothing of it is over."""
        return self.step is not None and row.step is not None and row.step > self.step

    def _begin_anew(self) -> None:
        self.order.clear()
        self.ranked.clear()
        self.pending = []
        self.above = self.calm = 0
        self.is_open = False
        self.level = self.since = self.step = self.peak = None

    def _insert(self, loss: float) -> None:
        self.order.append(loss)
        insort(self.ranked, loss)
        if len(self.order) > WINDOW:
            del self.ranked[bisect_left(self.ranked, self.order.popleft())]

    def _rise(self, row: Row, loss: float, middle: float) -> None:
        if self.above == 0:
            self.level, self.since, self.step, self.peak = middle, row.at, row.step, loss
        self.above += 1
        self.calm = 0
        self.peak = loss if self.peak is None else max(self.peak, loss)
        self.is_open = self.is_open or self.above >= self.rows
        if self.is_open:
            self.pending = []
        else:
            self.pending.append(loss)

    def _settle(self) -> None:
        self.calm += 1
        if not self.is_open or self.calm >= self.rows:
            for bump in self.pending:
                self._insert(bump)
            self.pending = []
            self.above = self.calm = 0
            self.is_open = False
            self.level = self.since = self.step = self.peak = None

    def freeze(self) -> LossTrend:
        """Return the value."""
        return LossTrend(
            window=tuple(self.order),
            pending=tuple(self.pending),
            above=self.above,
            calm=self.calm,
            is_open=self.is_open,
            level=self.level,
            since=self.since,
            step=self.step,
            peak=self.peak,
            early=self.early,
        )


def loss_spike(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-11: the loss has left its trend, or climbs away from it, and has not come back."""
    spike = history.trend.loss
    level, peak = spike.level, spike.peak
    if not spike.is_open or level is None or peak is None:
        yield from loss_climb(run, history)
        return
    trend = f"{wording.figure(level)} (median of {len(spike.window)} rows)"
    least = "" if history.rows_from == 0 else "at least "
    lines = (
        f"{least}{spike.above} logged rows above the limit since step {wording.step(spike.step)}",
        f"peak {wording.figure(peak)}; trend {trend}",
    )
    title = f"loss more than {run.thresholds.loss_spike:.0%} above its trend"
    yield loss_alert(run, history, title, spike.since, lines)
