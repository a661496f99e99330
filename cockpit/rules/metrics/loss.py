"""C-11: loss spikes, slow climbs, and the lasting step: the loss stands higher and stays there.

That is neither a spike (it is far below half of the loss) nor a slow climb (it is not one third of
it): it is what a broken data source, a lost expert or a rank that trains on noise look like.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite
from operator import itemgetter
from statistics import median
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Climb, LossStep, LossTrend
from cockpit.rules import present
from cockpit.rules.metrics.stability import deviation
from cockpit.rules.metrics.usual import (
    NORMAL,
    ExcursionFold,
    SoundColumns,
    Sway,
    frozen,
    until_above,
)

LEVEL: Final = 50
"""Rows whose median is the level of the loss (SPEC C-11)."""
FLOOR: Final = 0.05
"""Share of the first level below which the best one never counts: a loss near zero moves freely."""
SIGNLESS: Final = 1.5
"""How many times its spread a loss must rise that is sometimes below zero: no share tells there."""
SWAY: Final = 1.5
"""How many times as far as it has lately swayed a level must rise to be called a climb."""
PARTS: Final = 5
STRETCH: Final = LEVEL // PARTS
"""Stretches of so many rows: a level that has stood for as many rows as it is made of was held."""
STEADY: Final = 0.5
"""Share of a climb within which levels are one that stands."""
_HIGH: Final = itemgetter(1)


class ClimbFold:
    """Accumulates a ``Climb``.

    A level is held once it has stood for ``LEVEL`` rows, or nothing above it: the return from a
    dip is no climb. It opens after ``climb_rows`` rows in a row whose level is more than
    ``loss_climb`` above the best that was held, and is over once ``spike_rows`` losses in a row are
    not above what counts as one. Rows without a finite loss count for nothing. A level that sways
    (a generator's against its discriminator, a policy's) rises and comes back by half or more: a
    climb must go beyond that. Where training goes back to before the climb it starts again, and
    keeps what the first level was.
    """

    def __init__(self, climb: Climb, run: RunSpec) -> None:
        self._share, self._rows = run.thresholds.loss_climb, run.thresholds.climb_rows
        self._calm_rows = run.thresholds.spike_rows
        self._take(climb)

    def _take(self, climb: Climb) -> None:
        self.recent: deque[float] = deque(climb.recent)
        self._ranked = sorted(climb.recent)
        self.first, self.best, self.best_step = climb.first, climb.best, climb.best_step
        self.above, self.calm, self.is_open = climb.above, climb.calm, climb.is_open
        self.since, self.step, self.level = climb.since, climb.step, climb.level
        self._sway = Sway(climb.sway, climb.trough, climb.peak)
        self.stood: deque[tuple[float, float]] = deque(climb.stood, PARTS)
        self.low, self.high, self.standing = climb.low, climb.high, climb.standing

    def add(self, row: Row, resumed: bool, loss: float | None) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back."""
        if resumed and not self._inside(row):
            self._take(Climb(first=self.first))
        if loss is None or not isfinite(loss):
            return
        recent, ranked = self.recent, self._ranked
        recent.append(loss)
        insort(ranked, loss)
        if len(ranked) > LEVEL:
            del ranked[bisect_left(ranked, recent.popleft())]
        elif len(ranked) < LEVEL:
            return
        self._judge(row, loss)

    def take(self, rows: SoundColumns, count: int) -> int:
        """Take the first ``count`` rows up to the first that is above; return how many."""
        order = [*self.recent, *rows.losses[:count]]
        levels, at = self._levels(order), 0
        while levels and at < count and not self.above:
            stop = min(at + STRETCH - self.standing, count)
            if not self.is_open and max(levels[at:stop]) <= self._lowest:
                self._follow(rows.rows[stop - 1], levels[at:stop])
                at = stop
                if levels[at - 1] > self._lowest:  # since this stretch: a lower level was held
                    self._rank(order[at : at + LEVEL])
                    self._weigh(rows.rows[at - 1], levels[at - 1], order[at + LEVEL - 1])
                continue
            self._rank(order[at : at + LEVEL])
            at = self._each(rows, at, stop)
            if len(self.recent) < LEVEL:  # a climb was over: the levels are those of other rows
                levels = []
        if levels:
            self._rank(order[at : at + LEVEL])
        return at if self.above else self._each(rows, at, count)

    def _levels(self, order: Sequence[float]) -> list[float]:
        """Return the level after each loss behind the first ``LEVEL``; empty if there are fewer."""
        ranked = self._ranked.copy()
        levels = list[float]()
        low, high = (LEVEL - 1) // 2, LEVEL // 2
        if len(ranked) == LEVEL:
            for former, loss in zip(order, order[LEVEL:], strict=False):
                insort(ranked, loss)  # as ``add``
                del ranked[bisect_left(ranked, former)]
                levels.append((ranked[low] + ranked[high]) / 2)
        return levels

    def _rank(self, recent: Sequence[float]) -> None:
        """Let the newest ``LEVEL`` losses be these."""
        self.recent, self._ranked = deque(recent), sorted(recent)

    def _each(self, rows: SoundColumns, at: int, stop: int) -> int:
        """Take the rows ``[at, stop)`` one by one up to the first that is above; return its end."""
        while at < stop and not self.above:
            self.add(rows.rows[at], False, rows.losses[at])
            at += 1
        return at

    def _inside(self, row: Row) -> bool:
        """Tell whether training goes on from within the climb: then nothing of it is over."""
        return self.step is not None and row.step is not None and row.step > self.step

    def _judge(self, row: Row, loss: float) -> None:
        ranked = self._ranked
        level = (ranked[(LEVEL - 1) // 2] + ranked[LEVEL // 2]) / 2
        if self.first is None:
            self.first = level
        self._follow(row, (level,))
        self._weigh(row, level, loss)

    def _follow(self, row: Row, levels: Sequence[float]) -> None:
        """Take the newest levels into what is held and how far they sway; ``row``: the last one."""
        self.low, self.high = min(self.low, *levels), max(self.high, *levels)
        self.standing += len(levels)
        if self.standing == STRETCH:
            self._hold(row)
        self._sway.follow(levels)

    @property
    def _lowest(self) -> float:
        """What the limit of a climb is never below: most levels are not above it."""
        return math.inf if self.best is None else self.best + self._share * abs(self.best)

    def _weigh(self, row: Row, level: float, loss: float) -> None:
        """Hold a level and the loss that made it against the best one."""
        ranked, best, first = self._ranked, self.best, self.first
        if best is None or first is None:
            return
        if not self.is_open and level <= self._lowest:
            if self.above or self.calm:
                self._end()
            return
        spread = 2 * (ranked[(3 * LEVEL) // 4] - ranked[LEVEL // 4])
        share = self._share * max(abs(best), FLOOR * abs(first))
        by_spread = spread * (self._share if ranked[0] > 0 else SIGNLESS)
        limit = best + max(share, by_spread, SWAY * self._sway.far)
        self.calm = self.calm + 1 if loss <= limit else 0
        if level > limit:
            self._rise(row, level)
        elif not self.is_open:
            self._end()
        if self.calm >= self._calm_rows and self.is_open:
            self._end()
            self.recent.clear()  # the next level is one of the rows to come
            self._ranked.clear()

    def _hold(self, row: Row) -> None:
        """End a stretch of rows: what all of the last ones have stood at may be the best level."""
        stood = self.stood
        stood.append((self.low, self.high))
        self.low, self.high, self.standing = math.inf, -math.inf, 0
        if len(stood) < PARTS:
            return
        low, high = min(stood)[0], max(map(_HIGH, stood))
        held = low if high - low <= STEADY * self._share * abs(low) else high
        if self.best is None or held < self.best:
            self.best, self.best_step = held, row.step

    def _end(self) -> None:
        self.above = self.calm = 0
        self.is_open, self.since, self.step, self.level = False, None, None, None

    def _rise(self, row: Row, level: float) -> None:
        if not self.above:
            self.since, self.step = row.at, row.step
        self.above, self.level = self.above + 1, level
        self.is_open = self.is_open or self.above >= self._rows

    def freeze(self) -> Climb:
        """Return the value."""
        sway = self._sway
        return frozen(Climb, self, sway=sway.far, trough=sway.trough, peak=sway.peak)


def _slow_climb(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-11, slowly: the loss's level has left the best that it has held, and stays away."""
    climb = history.trend.climb
    level, best = climb.level, climb.best
    if not climb.is_open or level is None or best is None:
        return
    above = f"{wording.percent(level / best - 1)} above" if best > 0 else "above"
    lines = (
        f"level {wording.figure(level)} (median of {LEVEL} rows), "
        f"best {wording.figure(best)} at step {wording.step(climb.best_step)}",
        f"{climb.above} logged rows more than {wording.percent(run.thresholds.loss_climb)} above it"
        f" since step {wording.step(climb.step)}",
    )
    title = f"Loss climbing: {above} the best level it has held"
    yield _loss_alert(run, history, title, climb.since, lines)


def _loss_alert(
    run: RunSpec, history: History, title: str, since: float | None, lines: Sequence[str]
) -> Alert:
    """Return C-11 with this title and these lines: one identity, however the loss has left."""
    advice = f"{wording.escalate(run)}; it may need a rollback, not a relaunch"
    return present.row_alert(history, f"C-11:{run.name}", title, since, lines, advice)


WINDOW = 200
"""Rows that the trend is the median of."""

ENOUGH = 20
"""Rows needed before there is a trend at all."""

HELD = 5
"""Rows whose median is a level that was held, while the window is filling."""

OTHER_METRICS = 0.1
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

    def sure(self, rows: SoundColumns, count: int) -> int:
        """Return how many of the first ``count`` rows are surely within the limit.

        With each row the median moves by one place of the window at most.
        """
        if self.above or self.pending or self.early is None or self.share >= 1:
            return 0
        if len(self.ranked) != WINDOW:
            return 0
        least = self.ranked[WINDOW // 2 - len(rows.losses)]
        return until_above(rows.losses, least + self.share * abs(least), count)

    def take(self, rows: SoundColumns) -> None:
        """Take such rows."""
        self.order.extend(rows.losses)
        for _ in rows.losses:
            self.order.popleft()
        self.ranked = sorted(self.order)

    def forget(self) -> None:
        """Start again."""
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
        return sum(abs(each - loss) <= OTHER_METRICS * loss for each in before) < ENOUGH

    def freeze(self) -> LossTrend:
        """Return the value."""
        return frozen(LossTrend, self, window=tuple(self.order))


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
        yield from _slow_climb(run, history)
        return
    of = f"lowest median of {HELD}" if level == spike.held else f"median of {len(spike.window)}"
    trend = f"{wording.figure(level)} ({of} rows)"
    least = "" if history.rows_from == 0 else "at least "
    lines = (
        f"{least}{spike.above} logged rows above the limit since step {wording.step(spike.step)}",
        f"peak {wording.figure(peak)}; trend {trend}",
    )
    title = f"Loss more than {wording.percent(run.thresholds.loss_spike)} above its trend"
    yield _loss_alert(run, history, title, spike.since, lines)


NEWEST: Final = 50
"""Rows whose median is the level of the loss (SPEC C-11)."""
FORMER: Final = 200
"""Rows before them whose median is the level that it had (SPEC C-11)."""
EVERY: Final = 10
"""Rows between two comparisons: a level is the median of five times as many."""
ONSET: Final = 3
"""Comparisons before the first that finds a step lies its beginning: half of ``NEWEST``."""
DEVIATIONS: Final = 6.0
"""Robust standard deviations of a level that a step is high at least (SPEC C-11)."""
OF_MEDIAN: Final = 1.2533 / NEWEST**0.5
"""Standard deviation of a median of ``NEWEST`` rows, as a share of that of one row."""
STEP_FLOOR: Final = 0.05
"""Share of the first level that a level never counts below: a loss near zero moves freely."""
BACK: Final = 0.5
"""Share of its height by which a loss has come back from a step that did not last."""
STEP_HELD: Final = 86_400.0
"""Seconds after which the higher level is the usual one."""
SAME: Final = 1.1
"""Factor within which a schedule moves the learning rate from row to row, or up on the whole."""


class StepFold:
    """Accumulates a ``LossStep``.

    The level of the newest rows is compared with the level of the rows before them. A change of
    the learning rate or the batch starts the comparison anew, for the loss follows them; a learning
    rate that rises row by row is a change, too. So does a training that goes back to before the
    step. Rows without a finite loss count for nothing.
    """

    def __init__(self, kept: LossStep, run: RunSpec) -> None:
        self._share, self._rows = run.thresholds.loss_step, run.thresholds.step_rows
        self._take(kept)

    def _take(self, kept: LossStep) -> None:
        self.window: deque[float] = deque(kept.window, NEWEST + FORMER)
        self.levels: deque[float] = deque(kept.levels, (NEWEST + FORMER) // EVERY)
        self.places: deque[tuple[int | None, float | None]] = deque(kept.places, ONSET + 1)
        self._sway = Sway(kept.sway, kept.trough, kept.peak, EVERY)
        self.waiting, self.first = kept.waiting, kept.first
        self.lr, self.batch = kept.lr, kept.batch
        self.low_lr = kept.lr if kept.low_lr is None else kept.low_lr
        self.above, self.is_open = kept.above, kept.is_open
        self.since, self.step = kept.since, kept.step
        self.former, self.limit = kept.former, kept.limit
        self.level, self.height = kept.level, kept.height

    def add(self, row: Row, resumed: bool, loss: float | None) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back."""
        inside = self.step is not None and row.step is not None and row.step > self.step
        if resumed and not (self.is_open and inside):
            self._take(LossStep(first=self.first))
        if row.lr is not None or row.batch is not None:
            self._follow_settings(row.lr, row.batch)
        if loss is None or not isfinite(loss):
            return
        self.window.append(loss)
        self.waiting += 1
        if self.waiting == EVERY:
            self.waiting = 0
            self._compare(row)

    def sure(self, count: int) -> int:
        """Return of how many of the next ``count`` rows it is sure that no step is open."""
        comparisons = -(-self._rows // EVERY)
        return 0 if self.above else min(count, comparisons * EVERY - self.waiting - 1)

    def take(self, rows: SoundColumns) -> None:
        """Take such rows."""
        for row, loss in zip(rows.rows, rows.losses, strict=True):
            self.add(row, False, loss)

    def _follow_settings(self, lr: float | None, batch: float | None) -> None:
        former, former_batch = self.lr, self.batch
        self.batch = former_batch if batch is None else batch
        other = former_batch is not None and self.batch != former_batch
        if lr is not None and lr != former:
            low = lr if self.low_lr is None else self.low_lr
            other = other or lr > SAME * low or (former is not None and former > SAME * lr)
            self.lr, self.low_lr = lr, lr if other else min(low, lr)
        if other and not self.is_open:
            self._forget()

    def _forget(self) -> None:
        """Compare with no row that came before."""
        self.window.clear()
        self.levels.clear()
        self.above, self.is_open = 0, False
        self.since = self.step = None
        self.former = self.limit = self.level = self.height = None

    def _compare(self, row: Row) -> None:
        self.places.append((row.step, row.at))
        if len(self.window) < NEWEST:
            return
        window = list(self.window)
        level = median(window[-NEWEST:])
        self.levels.append(level)
        self._sway.follow((level,))
        self.first = level if self.first is None else self.first
        if self.is_open:
            self._stay(row, level)
        elif len(window) == NEWEST + FORMER and self._is_higher(window, level):
            self._rise(level)
        else:
            self.above = 0

    def _is_higher(self, window: Sequence[float], level: float) -> bool:
        """Tell whether the level is a step above all former ones; the usual one is kept.

        A loss that falls has its highest level far back, and its rows lie around where it stood
        then: each stretch has its own middle.
        """
        if self.above and self.limit is not None:
            return level > self.limit
        former = list(self.levels)[: -NEWEST // EVERY]
        highest = max(former)
        if level <= highest + self._share * abs(highest):
            return False
        usual = median(window[:FORMER])
        stretches = (window[at : at + NEWEST] for at in range(0, FORMER, NEWEST))
        rows = sorted(abs(loss - median(each)) for each in stretches for loss in each)
        noise = OF_MEDIAN * rows[FORMER // 2]
        # Levels without the fall of a loss that is learned: what is left is how they wander
        half = len(former) // 2
        fall = min(0.0, median(former[half:]) - median(former[:half])) / half
        levels = sorted([level - fall * at for at, level in enumerate(former)])
        drift = deviation(levels, median(levels))
        least = self._share * max(abs(usual), STEP_FLOOR * abs(self.first or 0.0))
        far = DEVIATIONS * NORMAL * max(noise, drift)
        self.former = usual
        self.limit = highest + max(least, far, SWAY * self._sway.far)
        return level > self.limit

    def _rise(self, level: float) -> None:
        if not self.above:
            self.step, self.since = self.places[0]
        self.above += EVERY
        if self.former is not None and self.above >= self._rows:
            self.is_open, self.level, self.height = True, level, level - self.former

    def _stay(self, row: Row, level: float) -> None:
        """Follow the level of a step; it is over once the loss is back, or has stayed a day."""
        self.above, self.level = self.above + EVERY, level
        back = (self.former or 0.0) + BACK * (self.height or 0.0)
        held = row.at is not None and self.since is not None and row.at - self.since >= STEP_HELD
        if level <= back or held:
            self._forget()

    def freeze(self) -> LossStep:
        """Return the value."""
        sway = self._sway
        return frozen(LossStep, self, sway=sway.far, trough=sway.trough, peak=sway.peak)


def stepped_up(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-11: the loss has stepped up and stays; nothing where it has left its trend altogether."""
    trend = history.trend
    found = trend.loss_step
    if not found.is_open or trend.loss.is_open or trend.climb.is_open:
        return
    former, level, height = found.former, found.level, found.height
    if former is None or level is None or height is None:
        return
    by = wording.percent(height / abs(former)) if former else wording.figure(height)
    place = "" if found.step is None else f" at about step {wording.step(found.step)}"
    text = (
        f"median of the last {NEWEST} rows {wording.figure(level)}, of the {FORMER} before"
        f" the step {wording.figure(former)}; higher for {found.above} rows"
    )
    yield present.row_alert(
        history,
        key=f"C-11:{run.name}:step",
        severity=Severity.WARNING,
        title=f"Loss stepped up by {by}{place} and stays",
        since=found.since,
        lines=[text],
        next_action=f"see what changed{place or ' then'}: data, settings, code, lost experts or"
        " ranks; a relaunch will not mend it",
    )
