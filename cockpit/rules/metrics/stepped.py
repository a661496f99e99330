"""C-11, the lasting step: the loss stands higher than before, by little, and stays there.

Neither a spike (it is far below half of the loss) nor a slow climb (it is not one third of it), it
is what a broken data source, a lost expert or a rank that trains on noise look like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import median
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import LossStep
from cockpit.rules import present
from cockpit.rules.metrics.loss import SWAY
from cockpit.rules.metrics.stability import deviation
from cockpit.rules.metrics.usual import NORMAL, SoundColumns, Sway, frozen

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
FLOOR: Final = 0.05
"""Share of the first level that a level never counts below: a loss near zero moves freely."""
BACK: Final = 0.5
"""Share of its height by which a loss has come back from a step that did not last."""
HELD: Final = 86_400.0
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
        least = self._share * max(abs(usual), FLOOR * abs(self.first or 0.0))
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
        held = row.at is not None and self.since is not None and row.at - self.since >= HELD
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
