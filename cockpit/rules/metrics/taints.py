"""Which saves may be spoilt (SPEC K): the steps and times in which the loss was no sound number.

A taint begins at the first non-finite step, or at the first step of a spike or a climb of the loss
while that is open.
It ends when the numbers are sound again for good (as C-09 and C-11 see it), or when training goes
back to before its beginning: then a new trajectory begins, which is judged by its own rows, while
what the former one has saved stays what it is.
"""

from __future__ import annotations

from math import isfinite

from cockpit.model.observed import Row
from cockpit.model.trend import Taint, Taints, WatchedMetric
from cockpit.rules.metrics.climb import ClimbFold
from cockpit.rules.metrics.nonfinite import KEY_METRIC_ROWS, LOSS_ROWS, FiniteFold
from cockpit.rules.metrics.spike import SpikeFold

KEPT = 16
"""Taints that are over and still remembered: what was saved in them may still lie there."""
SPIKE = "spike"
CLIMB = "climb"
ASTRAY = (SPIKE, CLIMB)
"""Taints by a loss that is a number, and not the one that it should be (C-11)."""


class TaintFold:
    """Accumulates ``Taints``; ``spike`` and ``climb`` have taken the row already."""

    def __init__(self, taints: Taints, spike: SpikeFold, climb: ClimbFold) -> None:
        self._folds = {
            "loss": FiniteFold(taints.loss, "loss", LOSS_ROWS),
            "grad_norm": FiniteFold(taints.grad_norm, "grad_norm", KEY_METRIC_ROWS),
        }
        self._loss, self._norm = self._folds.values()
        self._spike, self._climb = spike, climb
        self._rise = taints.rise
        self._open = {taint.metric: taint for taint in taints.open}
        self._over = list(taints.over)
        self._sound = taints.sound
        self._began = taints.began

    def add(self, row: Row, resumed: bool, loss: float | None, skipped: bool = False) -> None:
        """Take one row and its loss; ``resumed`` tells that its step went back.

        ``skipped`` tells that its optimizer step was left out.
        """
        if not resumed and self._all_is_well(row, loss):
            self._sound = self._sound if row.step is None else row.step
            return
        if resumed:
            self._go_back(row)
        self._finite("loss", row, loss)
        self._finite("grad_norm", row, row.grad_norm, skipped)
        if loss is None or not isfinite(loss):
            return
        self._spiking(row)
        self._climbing(row)
        if not self._open and row.step is not None:
            self._sound = row.step

    def _all_is_well(self, row: Row, loss: float | None) -> bool:
        """Tell of most rows, quickly, that nothing of them changes anything but the sound step."""
        if self._open or self._rise is not None or self._spike.above or self._climb.is_open:
            return False
        norm = row.grad_norm
        return (
            loss is not None
            and self._loss.steady
            and isfinite(loss)
            and (norm is None or (self._norm.steady and isfinite(norm)))
        )

    def _go_back(self, row: Row) -> None:
        """End what the row's trajectory has not come to; what it went back into stays open."""
        self._began = row.at
        for metric, taint in tuple(self._open.items()):
            if taint.step is None or row.step is None or row.step > taint.step:
                continue
            self._close(metric, row.at, new_trajectory=True)
            if metric in self._folds:
                needed = self._folds[metric].needed
                self._folds[metric] = FiniteFold(WatchedMetric(), metric, needed)
                self._loss, self._norm = self._folds.values()
        if self._rise is not None and row.step is not None:
            self._rise = None if row.step <= (self._rise[0] or 0) else self._rise
        if not self._open:
            self._sound = None if row.step is None else row.step - 1

    def _finite(self, metric: str, row: Row, value: float | None, skipped: bool = False) -> None:
        fold = self._folds[metric]
        fold.add(row, value, skipped)
        found = fold.finding
        if found is None:
            if metric in self._open:
                self._close(metric, self._open[metric].sound_at)
            return
        former = self._open.get(metric)
        if former is None or value is None:
            if former is None:
                self._begin(metric, found.value, found.step, found.at, row)
            return
        bad = not isfinite(value)
        self._open[metric] = former.model_copy(
            update={
                "last": row.step if bad else former.last,
                "sound_at": None if bad else former.sound_at or row.at,
            }
        )

    def _spiking(self, row: Row) -> None:
        spike = self._spike
        if not spike.above:
            self._rise = None
            if SPIKE in self._open:
                del self._open[SPIKE]  # it came back by itself: nothing was lost
            return
        rising = spike.calm == 0
        if rising and self._rise is None:
            self._rise = (row.step, row.at)
        if spike.is_open and self._rise is not None and rising:
            if SPIKE not in self._open:
                self._begin(SPIKE, "", *self._rise, row)
            taint = self._open[SPIKE]
            self._open[SPIKE] = taint.model_copy(update={"last": row.step})

    def _climbing(self, row: Row) -> None:
        climb = self._climb
        if not climb.is_open:
            self._open.pop(CLIMB, None)
        elif climb.calm == 0:
            if CLIMB not in self._open:
                self._begin(CLIMB, "", climb.step, climb.since, row)
            self._open[CLIMB] = self._open[CLIMB].model_copy(update={"last": row.step})

    def _begin(self, metric: str, value: str, step: int | None, at: float | None, row: Row) -> None:
        self._open[metric] = Taint(
            metric=metric,
            value=value,
            step=step,
            at=at,
            last=row.step,
            sound=self._sound,
            began=self._began,
        )

    def _close(self, metric: str, until: float | None, new_trajectory: bool = False) -> None:
        update = {"until": until, "over": True, "left": new_trajectory}
        self._over = [*self._over, self._open.pop(metric).model_copy(update=update)][-KEPT:]

    def freeze(self) -> Taints:
        """Return the value."""
        return Taints(
            open=tuple(self._open.values()),
            over=tuple(self._over),
            sound=self._sound,
            rise=self._rise,
            began=self._began,
            loss=self._folds["loss"].freeze(),
            grad_norm=self._folds["grad_norm"].freeze(),
        )
