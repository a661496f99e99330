"""C-11, loss spike: the loss against the median of the newest rows that were not a spike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import LossTrend
from cockpit.rules.metrics.calm import Calm, until_above
from cockpit.rules.metrics.climb import FLOOR, SIGNLESS, loss_alert, loss_climb
from cockpit.rules.metrics.excursion import NORMAL, ExcursionFold

WINDOW = 200
"""Rows that the trend is the median of."""

ENOUGH = 20
"""Rows needed before there is a trend at all."""

HELD = 5
"""Rows whose median is a level that was held, while the window is filling."""

BESIDE = 0.1
"""Share of a loss within which others are at its own level."""

BY_NOISE = 6
"""Standard deviations of the noise that a loss must be above such a level."""


class SpikeFold(ExcursionFold):
    """Accumulates a ``LossTrend``.

    The limit is ``trend + loss_spike x max(|trend|, spread)``, the spread being twice the
    window's interquartile range: for a loss well above zero that is "50 % above", and near
    or below zero it still asks for an excursion that is large against what is usual. A loss near
    zero moves freely: ``|trend|`` never counts below a share of the early level. Rows without a
    finite loss count for nothing.

    Until the window is full its median is that of a descent, far above where the loss has come
    to. So long the lowest level that was held counts too, with a limit that its noise gives; a loss
    that comes back from a dip to where it has stood before does not leave it.
    """

    def __init__(self, trend: LossTrend, run: RunSpec) -> None:
        super().__init__(trend, run.thresholds.spike_rows, WINDOW)
        self.share = run.thresholds.loss_spike
        self.early, self.held = trend.early, trend.held

    def add(self, row: Row, resumed: bool, loss: float | None) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back."""
        if resumed:
            self.resume(row)
        if loss is None or not isfinite(loss):
            return
        count = len(self.ranked)
        if count >= ENOUGH:
            middle = self.ranked[count // 2]
            if self.early is None:
                self.early = middle
            if loss > middle + self.share * abs(middle) and loss > self._limit(middle, self.early):
                self.beyond(row, loss, middle, self.peak is None or loss > self.peak)
                return
            if count < WINDOW and self._leaves_held(loss, self.early):
                level = middle if self.held is None else self.held
                self.beyond(row, loss, level, self.peak is None or loss > self.peak)
                return
        self.within(loss)
        if count < WINDOW:
            self._hold()

    def sure(self, rows: Calm, count: int) -> int:
        """Return how many of the first ``count`` rows are surely within the limit.

        With each row the median moves by one place of the window at most.
        """
        if self.above or self.pending or self.early is None or self.share >= 1:
            return 0
        if len(self.ranked) != WINDOW:
            return 0
        least = self.ranked[WINDOW // 2 - len(rows.losses)]
        return until_above(rows.losses, least + self.share * abs(least), count)

    def take(self, rows: Calm) -> None:
        """Take such rows."""
        self.order.extend(rows.losses)
        for _ in rows.losses:
            self.order.popleft()
        self.ranked = sorted(self.order)

    def forget(self) -> None:
        """Begin anew."""
        super().forget()
        self.held = None

    def _limit(self, middle: float, early: float) -> float:
        ranked, count = self.ranked, len(self.ranked)
        spread = 2 * (ranked[(3 * count) // 4] - ranked[count // 4])
        share = max(abs(middle), FLOOR * abs(early)) * self.share
        return middle + max(share, spread * (self.share if ranked[0] > 0 else SIGNLESS))

    def _hold(self) -> None:
        """Take the median of the newest rows into the lowest level that was held."""
        if len(self.order) >= HELD:
            level = sorted(islice(reversed(self.order), HELD))[HELD // 2]
            self.held = level if self.held is None else min(self.held, level)

    def _leaves_held(self, loss: float, early: float) -> bool:
        """Tell whether a loss is above the lowest level that was held, and not by noise alone."""
        held = self.held
        if held is None or held <= 0 or loss <= held * (1 + self.share):
            return False
        least = max(held, FLOOR * abs(early)) * self.share
        if loss <= held + max(least, BY_NOISE * noise(self.order)):
            return False
        before = islice(self.order, self.order.index(self.ranked[0]))
        return sum(abs(each - loss) <= BESIDE * loss for each in before) < ENOUGH

    def freeze(self) -> LossTrend:
        """Return the value."""
        return LossTrend(**self.common(), early=self.early, held=self.held)


def noise(values: Sequence[float]) -> float:
    """Return the standard deviation of the noise in a series that moves.

    By how far each value is from the line between its neighbours (Gasser, Sroka and
    Jennen-Steinmetz, 1986); the median of the distances for robustness. 0 for fewer than three.
    """
    beside = zip(values, islice(values, 1, None), islice(values, 2, None), strict=False)
    bends = sorted(abs(before - 2 * value + after) for before, value, after in beside)
    return NORMAL * bends[len(bends) // 2] / math.sqrt(6) if bends else 0.0


def loss_spike(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-11: the loss has left its trend, or climbs away from it, and has not come back."""
    spike = history.trend.loss
    level, peak = spike.level, spike.peak
    if not spike.is_open or level is None or peak is None:
        yield from loss_climb(run, history)
        return
    of = f"lowest median of {HELD}" if level == spike.held else f"median of {len(spike.window)}"
    trend = f"{wording.figure(level)} ({of} rows)"
    least = "" if history.rows_from == 0 else "at least "
    lines = (
        f"{least}{spike.above} logged rows above the limit since step {wording.step(spike.step)}",
        f"peak {wording.figure(peak)}; trend {trend}",
    )
    title = f"Loss more than {wording.percent(run.thresholds.loss_spike)} above its trend"
    yield loss_alert(run, history, title, spike.since, lines)
