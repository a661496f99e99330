"""C-11, loss spike: the loss against the median of the newest rows that were not a spike."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import LossTrend
from cockpit.rules.metrics.climb import FLOOR, loss_alert, loss_climb
from cockpit.rules.metrics.excursion import ExcursionFold

WINDOW = 200
"""Rows that the trend is the median of."""

ENOUGH = 20
"""Rows needed before there is a trend at all."""


class SpikeFold(ExcursionFold):
    """Accumulates a ``LossTrend``.

    The limit is ``trend + loss_spike x max(|trend|, spread)``, the spread being twice the
    window's interquartile range: for a loss well above zero that is "50 % above", and near
    or below zero it still asks for an excursion that is large against what is usual. A loss near
    zero moves freely: ``|trend|`` never counts below a share of the early level. Rows without a
    finite loss count for nothing.
    """

    def __init__(self, trend: LossTrend, run: RunSpec) -> None:
        super().__init__(trend, run.thresholds.spike_rows, WINDOW)
        self.share = run.thresholds.loss_spike
        self.early = trend.early

    def add(self, row: Row, resumed: bool, loss: float | None) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back."""
        if resumed:
            self.resume(row)
        if loss is None or not math.isfinite(loss):
            return
        count = len(self.ranked)
        if count >= ENOUGH:
            middle = self.ranked[count // 2]
            if self.early is None:
                self.early = middle
            if loss > middle + self.share * abs(middle) and loss > self._limit(middle, self.early):
                self.beyond(row, loss, middle, self.peak is None or loss > self.peak)
                return
        self.within(loss)

    def _limit(self, middle: float, early: float) -> float:
        ranked, count = self.ranked, len(self.ranked)
        spread = 2 * (ranked[(3 * count) // 4] - ranked[count // 4])
        return middle + self.share * max(abs(middle), spread, FLOOR * abs(early))

    def freeze(self) -> LossTrend:
        """Return the value."""
        return LossTrend(**self.common(), early=self.early)


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
