"""The fold of logged rows into a ``Trend``: the one place where rows become memory.

Each metric has its own fold. The fold of the step and its clock (how fast, how far, when) is here.
``stretch`` takes quiet rows by columns. Measured: a backtest of 200,000 rows takes 2.0 s of
processor time with it and 3.6 s without, which is more than ``bench.histories`` allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import isfinite
from operator import sub, truediv
from statistics import median

from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Pace, Trend, timed_steps
from cockpit.rules.metrics.limits import Limits
from cockpit.rules.metrics.loss import ClimbFold, SpikeFold, StepFold
from cockpit.rules.metrics.nonfinite import (
    KEY_METRIC_ROWS,
    LOSS_ROWS,
    FiniteFold,
    SkipFold,
    TaintFold,
)
from cockpit.rules.metrics.seam import SeamFold
from cockpit.rules.metrics.stability import Stabilities
from cockpit.rules.metrics.throughput import SteppingFold, ThroughputFold
from cockpit.rules.metrics.usual import FEWEST, SoundColumns, frozen, sound_columns
from cockpit.rules.metrics.writers import WriterFold

RECENT = 64
"""How many newest logged steps the usual step time is taken from."""

BEGINNING = 4
"""How many of the first steps of an instance are kept: what the first one was, they tell."""

PAUSE = 3.0
"""How many times the usual time between two logged steps is a pause of training."""
PAUSES = 64
SHORTEST = 1e-6
"""Seconds between two rows that are distinguished."""


class PaceFold:
    """Accumulates a ``Pace``. ``add`` tells what the other folds need of each row.

    Where two write by turns it is that of one of them: the other's rows are ``aside``.
    """

    def __init__(self, pace: Pace, writers: WriterFold) -> None:
        self._writers = writers
        self.step, self.at = pace.step, pace.at
        self.first = (pace.first_step, pace.first_at)
        self.resumes, self.resumed_at = pace.resumes, pace.resumed_at
        self.began, self.began_late = pace.began, pace.began_late
        self.metrics = pace.metrics_seen
        self.recent: deque[tuple[int, float]] = deque(pace.recent, RECENT)
        self.pauses: deque[tuple[float, float]] = deque(pace.pauses, PAUSES)
        self.resumed = self.paused = False
        self.aside = self.switched = self.turned = False
        self._usually = True
        """None of these is set."""
        self.rate: float | None = None

    def add(self, row: Row) -> None:
        """Take one row; then ``resumed``, ``paused`` and ``rate`` (steps/s) speak of this row.

        So do ``aside``, and ``switched`` and ``turned`` (``WriterFold``).
        """
        if not self._usually:
            self.resumed = self.paused = self.aside = self.switched = self.turned = False
            self._usually = True
        self.rate = None
        step, at, loss, throughput, norm, bar = row[:6]  # a look at each by name is dearer
        carries = loss is not None or throughput is not None or norm is not None or bar
        if not self.metrics:
            self.metrics = carries
        if self.first[1] is None and at is not None:
            self.first = (step, at)
        if step is None:
            self._alive(row, carries)
        elif step == self._writers.expected:
            self._writers.go_on(step, at)
            self._move(step, at)
        elif self._no_training(step, carries) or self._of_another(step, at):
            self._alive(row, carries)
        elif step != self.step:
            self._move(step, at)

    def sure(self, rows: SoundColumns, longest: float) -> int:
        """Return of how many rows it is sure that they go on without a pause.

        No time between two is above ``longest`` (s).
        """
        recent = self.recent
        known = self.metrics and self.first[1] is not None and len(self.began) >= BEGINNING
        if not known or len(recent) < 2:
            return 0
        last = recent[-1][1]
        if self.pauses and self.pauses[-1][1] == last:
            return 0
        before, ahead = last - recent[-2][1], self._writers.ahead(rows.steps)
        gaps = list(map(sub, rows.ats[:ahead], (last, *rows.ats)))
        shortest, most = min(gaps, default=0.0), max(gaps, default=0.0)
        if shortest > SHORTEST and most <= min(longest, PAUSE * min(shortest, before)):
            return ahead  # as nearly always
        for count, gap in enumerate(gaps):
            if not SHORTEST < gap <= longest or gap > PAUSE * before:
                return count
            before = gap
        return ahead

    def take(self, rows: SoundColumns) -> list[float]:
        """Take such rows; return the rate (steps/s) of each."""
        steps, ats = rows.steps, rows.ats
        self.resumed = self.paused = self.aside = self.switched = self.turned = False
        self._usually = True
        was, then = self.recent[-1]
        rates = list(map(truediv, map(sub, steps, (was, *steps)), map(sub, ats, (then, *ats))))
        self.recent.extend(zip(steps, ats, strict=True))
        self.step, self.at, self.rate = steps[-1], ats[-1], rates[-1]
        self._writers.go_far(steps[-1], ats[-1], len(steps))
        return rates

    def _no_training(self, step: int, carries: bool) -> bool:
        """Tell whether a row's step is not a training step: an epoch, or samples of an evaluation.

        Once rows carry a metric of training, one that carries none must be the next step.
        """
        if carries or self.step is None:
            return False
        return step <= self.step or (self.metrics and not self._writers.next_to(step))

    def _of_another(self, step: int, at: float | None) -> bool:
        """Tell whether a row is another writer's; to begin to follow that one is no restart."""
        writers = self._writers
        self.aside = writers.take(step, at)
        self.switched, self.turned = writers.switched, writers.turned
        self._usually = not (self.aside or self.switched or self.turned)
        if self.turned:
            self.step = None
            self.recent.clear()
            self.pauses.clear()
        return self.aside

    def _alive(self, row: Row, carries: bool) -> None:
        """Count a row without a step of its own, or with an older one, as a sign of training.

        Only where it carries a metric, or where no row ever did: an evaluation that is
        logged late must neither look like a resume nor hide a stall.
        """
        repeated = row.step is not None and row.step == self.step
        if row.at is not None and not repeated and (carries or not self.metrics):
            self.at = row.at

    def _move(self, step: int, at: float | None) -> None:
        if self.step is not None and step < self.step:
            self.resumed, self._usually = True, False
            self.resumes += 1
            self.resumed_at, self.began, self.began_late = at, (), False
            self.recent.clear()
            self.pauses.clear()
        self.step = step
        if at is None:
            self.began_late = self.began_late or not self.began
            return
        recent, self.at = self.recent, at
        if recent:
            last_step, last_at = recent[-1]
            if at > last_at:
                self.rate = (step - last_step) / (at - last_at)
                if len(recent) > 1:
                    self._pause(last_at, at, last_at - recent[-2][1])
            elif len(recent) > 1 and last_at == at == recent[-2][1]:
                recent.pop()  # of rows that came at one time the first and the last say all
        if len(self.began) < BEGINNING:
            self.began = (*self.began, (step, at))
        recent.append((step, at))

    def _pause(self, last_at: float, at: float, before: float) -> None:
        """Note a time without steps that was much longer than the usual one.

        ``before``: the time between the two rows before it.
        """
        after_pause = bool(self.pauses) and self.pauses[-1][1] == last_at
        if at - last_at <= PAUSE * before and not after_pause:
            return  # most rows end here: the median is dear
        usual = self._usual()[1]
        if usual is not None and at - last_at > PAUSE * usual:
            self.pauses.append((last_at, at))
            self.paused, self._usually = True, False

    def freeze(self) -> Pace:
        """Return the value; the medians are taken here, once for each batch."""
        step_s, gap_s = self._usual()
        first_step, first_at = self.first
        return frozen(
            Pace,
            self,
            first_step=first_step,
            first_at=first_at,
            metrics_seen=self.metrics,
            usual_step_s=step_s,
            usual_gap_s=gap_s,
        )

    def _usual(self) -> tuple[float | None, float | None]:
        gaps = timed_steps(self.recent)
        if not gaps:
            return None, None
        return median(gap / steps for gap, steps in gaps), median(gap for gap, _ in gaps)


class TrendFold:
    """Accumulates a ``Trend``: every part of it has its fold, which takes each row once.

    Not ``whole``, it leaves out what no rule on rows alone asks for: goodput and taints.
    """

    def __init__(self, trend: Trend, run: RunSpec, *, whole: bool = True) -> None:
        self._whole = whole
        self._rows, self._last = trend.rows, trend.last
        self._low = run.thresholds.throughput_cadences
        self.writers = WriterFold(trend.writers)
        self.pace = PaceFold(trend.pace, self.writers)
        self.stepping = SteppingFold(trend.stepping, run)
        self.throughput = ThroughputFold(trend.throughput, run)
        self.spike = SpikeFold(trend.loss, run)
        self.climb = ClimbFold(trend.climb, run)
        self.loss_step = StepFold(trend.loss_step, run)
        self.stability = Stabilities(trend.stability, run)
        self.seams = SeamFold(trend.resumption, run)
        self.skips = SkipFold(trend.skips)
        self.loss = FiniteFold(trend.loss_finite, "loss", LOSS_ROWS)
        self.grad = FiniteFold(trend.grad_finite, "grad_norm", KEY_METRIC_ROWS)
        self.limits = Limits(trend.limits, run)
        self._steady = self.loss.steady and self.grad.steady
        """Another sound row changes nothing of them."""
        self.taints = TaintFold(trend.taints, self.spike, self.climb)

    def add(self, row: Row) -> None:
        """Take one row."""
        pace, spike, climb = self.pace, self.spike, self.climb
        pace.add(row)
        loss = row.loss
        if loss == 0.0:
            loss = row.true_loss
        if pace.aside:
            self._aside(row, loss)
            return
        anew = pace.resumed or pace.turned
        self.throughput.add(row, anew, pace.rate, pace.paused)
        spike.add(row, anew, loss)
        climb.add(row, anew, loss)
        self.loss_step.add(row, anew, loss)
        if pace.turned:
            self.seams.forget()
        astray = spike.above > 0 or climb.above > 0
        self.seams.add(row, pace.resumed, pace.paused, loss, astray)
        self.stability.add(row, anew)
        norm, skipped = row.grad_norm, False
        sound = loss is not None and norm is not None and isfinite(loss + norm)
        if not (sound and self._steady and row.skipped is None):  # most rows are
            skipped = self._finite(row, loss)
        if anew or row.limited or row.skipped is not None:
            self.limits.add(row, anew, skipped)
        if self._whole:
            self.stepping.add(row, pace.step, pace.resumed, pace.switched)
            self.taints.add(row, anew, loss, skipped)
        self._rows, self._last = self._rows + 1, row

    def stretch(self, rows: Sequence[Row], longest: float) -> int:
        """Take as many of the next rows as surely change no mark, together; return how many.

        The result is that of ``add`` for each. No time between two is above ``longest`` (s).
        """
        columns = None if self._whole or not rows else sound_columns(rows)
        if columns is None or self.climb.above or self.climb.is_open:
            return 0
        steady = self.loss.steady and (self.grad.steady or "grad_norm" not in columns.beside)
        count = self.pace.sure(columns, longest) if steady and self.seams.sure(columns) else 0
        for fold in (self.throughput, self.spike, self.stability):
            count = fold.sure(columns, count) if count >= FEWEST else 0
        count = self.limits.sure(rows, self.loss_step.sure(count))
        if not count:
            return 0
        count = self.climb.take(columns, count)
        if count < len(rows):
            columns = columns.first(count)
        self.throughput.take(columns, self.pace.take(columns))
        self.spike.take(columns)
        self.loss_step.take(columns)
        self.limits.take(rows[:count])
        self.stability.take(columns)
        self.seams.take(columns, astray=self.climb.above > 0)
        self._rows, self._last = self._rows + count, rows[count - 1]
        return count

    def _aside(self, row: Row, loss: float | None) -> None:
        """Take a row of another writer than the folds follow: what it spoils, and its time.

        That its numbers are sound tells nothing of those that are followed.
        """
        self.seams.forget()
        if self._whole:
            self.stepping.add(row, row.step, False, self.pace.switched)
        if loss is not None and not isfinite(loss):
            skipped = self._finite(row, loss)
            if self._whole:
                self.taints.add(row, False, loss, skipped)
        self._rows, self._last = self._rows + 1, row

    def _finite(self, row: Row, loss: float | None) -> bool:
        """Watch for what is no number (C-09); tell whether the optimizer step was left out."""
        skipped = row.skipped is not None and self.skips.add(row)
        self.loss.add(row, loss)
        self.grad.add(row, row.grad_norm, skipped)
        self._steady = self.loss.steady and self.grad.steady
        return skipped

    def alert_state(self) -> tuple[object, ...]:
        """Return what every rule on rows alone hangs on: equal marks, the same alerts are open."""
        return (
            self.loss.finding is None,
            self.grad.finding is None,
            self.spike.is_open,
            self.climb.is_open,
            self.loss_step.is_open,
            self.stability.opened,
            self.seams.found is None,
            self.throughput.low >= self._low,
            self.limits.opened,
            self.pace.resumes,
        )

    def freeze(self) -> Trend:
        """Return the value."""
        return Trend(
            rows=self._rows,
            last=self._last,
            pace=self.pace.freeze(),
            writers=self.writers.freeze(),
            stepping=self.stepping.freeze(),
            throughput=self.throughput.freeze(),
            loss=self.spike.freeze(),
            climb=self.climb.freeze(),
            loss_step=self.loss_step.freeze(),
            stability=self.stability.freeze(),
            resumption=self.seams.freeze(),
            skips=self.skips.freeze(),
            limits=self.limits.freeze(),
            loss_finite=self.loss.freeze(),
            grad_finite=self.grad.freeze(),
            taints=self.taints.freeze(),
        )


def advance(trend: Trend, rows: Sequence[Row], run: RunSpec) -> Trend:
    """Return ``trend`` with ``rows`` (in logged order) folded in.

    The result does not depend on how rows are cut into batches. Steps may repeat or go back
    (a resume), times may be missing; a row counts only for the metrics that it carries.
    """
    if not rows:
        return trend
    fold = TrendFold(trend, run)
    for row in rows:
        fold.add(row)
    return fold.freeze()
