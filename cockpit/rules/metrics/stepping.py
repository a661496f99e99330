"""The time that went into steps: forward, again, slowly, or into none (goodput).

One pass, O(1) a row, bounded: what is found is added up, only the newest long breaks are listed.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, median

from cockpit.model.goodput import Break, Stepping
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec

PAUSE = 3.0
"""How many times the usual time without a step is none that was trained in."""
SHORTEST = 20.0
"""A pause is no shorter than this part of a cadence: less is the steps' own unevenness."""
EARLY = 8
"""Steps that tell the usual time before a window is full."""
WINDOWS = 32
"""Newest windows that were not slow, of which the median is the usual level."""
ENOUGH = 3
SETTLED = 96
"""Slow windows in a row (a day of them, at the usual cadence) after which it is the usual level:
a longer context or a larger batch has come to stay."""
LISTED = 128
_SUMS = (
    "first_at", "productive_s", "rework_s", "slow_s", "pauses_s", "unlisted_s", "spoilt_s",
    "steps_again", "steps_spoilt", "backs", "slow_run",
)  # fmt: skip


class SteppingFold:
    """Accumulates a ``Stepping``.

    A step counts once: the time to train what had been trained before (up to the highest step)
    is rework. That is the same number of steps as those that were lost, at the pace of now.
    Of a window of one cadence that is slower by ``throughput_drop`` than the median of those
    before, only what the steps take at the usual level is productive (as C-05 calls it low).
    Steps up to a row whose loss is no number (C-09) are spoilt, and those after it until a row
    tells a sound one: they are no progress, so to train them again is no rework.
    """

    def __init__(self, value: Stepping, run: RunSpec) -> None:
        self.window = max(run.cadence, 1e-3)
        self.drop = run.thresholds.throughput_drop
        self.former, self.now = value, {name: getattr(value, name) for name in _SUMS}
        self.breaks: deque[Break] = deque(value.breaks, LISTED)
        self.levels: deque[float] = deque(value.levels, WINDOWS)
        self.paces: deque[float] = deque(value.paces, WINDOWS)
        self.early = list(value.early)
        self.at, self.step, self.high = value.at, value.step, value.high
        self.usual = value.usual_step_s
        self.open_s, self.open_steps = value.open_s, value.open_steps
        self.measured, self.told, self.told_s = value.measured, value.open_sum, value.open_sum_s
        self.shortest, self.late = self.window / SHORTEST, value.late
        self.spoilt_now = value.spoilt_now
        self.spoilt: deque[tuple[int, int]] = deque(value.spoilt, LISTED)

    def add(self, row: Row, step: int | None, resumed: bool, another: bool = False) -> None:
        """Take one row; ``step`` is training's step after it, ``resumed``: it went back.

        ``another``: it is of a second writer that goes on where it was: nothing began again.
        """
        at, last = row.at, self.at
        if step is None or at is None or row.step != step:
            return
        loss = row.true_loss
        if loss is not None or resumed or another:  # else it is as the one before it
            self.spoilt_now = not math.isfinite(loss or 0.0)
        if step == self.step:
            return
        if last is None or self.step is None or self.high is None:
            self.now["first_at"], self.high, self.at = at, step, at
        elif another or (step < self.step and not resumed):  # a row out of its order is no step on
            self._beside(max(0.0, at - last), step, row.throughput)
        elif resumed:
            self._back(at, step)
        elif at > last:
            self._forward(at - last, step, row.throughput)
        if last is not None and at > last:
            self.at = at
        self.step = step
        if step > self.high and not self.spoilt_now:
            self.high = step

    def _back(self, at: float, step: int) -> None:
        assert self.at is not None and self.step is not None
        self.now["steps_again"] += self.step - step + 1
        self._leave(step)
        self.now["backs"] += 1
        self._close_window()
        self._list(Break(self.at, max(self.at, at), self.step, True))

    def _leave(self, step: int) -> None:
        """Leave what was spoilt from ``step`` on: as part of what is trained again it counts."""
        assert self.step is not None
        while self.spoilt and self.spoilt[-1][1] >= step:
            first, last = self.spoilt.pop()
            self.now["steps_spoilt"] -= max(0, min(last, self.step) - max(first, step) + 1)
            if first < step:
                self.spoilt.append((first, step - 1))

    def _beside(self, took: float, step: int, throughput: float | None) -> None:
        """Take a step of another writer: only beyond the highest one it trains what none has."""
        assert self.at is not None and self.step is not None and self.high is not None
        if step > self.high:
            self.step = self.high
            self._forward(took, step, throughput)
        elif took < self.window:
            self.now["rework_s"] += took
        else:
            self._close_window()
            self._list(Break(self.at, self.at + took, self.step, False))

    def _forward(self, took: float, step: int, throughput: float | None) -> None:
        assert self.step is not None and self.high is not None
        count = step - self.step
        usual = self.usual if self.usual is not None else self._usual(took / count)
        late = usual is not None and took > PAUSE * usual * count and took > self.shortest
        if usual is not None and late and (not self.late or took >= self.window):
            took = self._paused(took, usual * count)
        self.late = late
        if self.step < self.high:
            again = (min(step, self.high) - self.step) / count
            self.now["rework_s"] += took * again
            took, count = took * (1.0 - again), step - max(self.high, self.step)
        if count > 0 and self.spoilt_now:
            self._spoil(took, step)
        elif count > 0:
            self._train(took, count, throughput)

    def _spoil(self, seconds: float, step: int) -> None:
        """Take steps up to a spoilt one: as ``high`` stays, another writer may begin below them."""
        assert self.step is not None and self.high is not None
        newest = self.spoilt[-1] if self.spoilt else None
        first = max(self.high, self.step, -1 if newest is None else newest[1]) + 1
        self.now["spoilt_s"] += seconds
        if step < first:
            return
        self.now["steps_spoilt"] += step - first + 1
        if newest is not None and newest[1] == first - 1:
            self.spoilt[-1] = newest[0], step
        else:
            self.spoilt.append((first, step))

    def _paused(self, took: float, trained: float) -> float:
        """Note a pause that ended with a step; return the part of it that trained the step.

        One late step after another is no pause but slowness: the windows tell that.
        """
        assert self.at is not None and self.step is not None
        found = Break(self.at + trained, self.at + took, self.step, False)
        if took - trained < self.window:
            self.now["pauses_s"] += took - trained
        else:
            self._close_window()
            self._list(found)
        return trained

    def _usual(self, pace: float) -> float | None:
        """Return the usual seconds a step, by the first ones until a window is full.

        Their mean: where steps are logged in pairs, a median would be that of one of the two.
        """
        if self.usual is None:
            self.early.append(pace)
            if len(self.early) >= EARLY:
                self.usual = fmean(self.early)
        return self.usual

    def _list(self, found: Break) -> None:
        if len(self.breaks) == LISTED:
            self.now["unlisted_s"] += self.breaks[0].until - self.breaks[0].since
        self.breaks.append(found)

    def _train(self, seconds: float, steps: int, throughput: float | None) -> None:
        self.open_s += seconds
        self.open_steps += steps
        if throughput is not None and 0.0 < throughput < math.inf:
            if not self.measured:
                self.measured = True  # another unit: the levels so far compare with nothing
                self.levels.clear()
            self.told += throughput * seconds
            self.told_s += seconds
        if self.open_s >= self.window:
            self._close_window()

    def _close_window(self) -> None:
        """Settle what was trained since the last window; a part of one sets no level."""
        seconds, steps = self.open_s, self.open_steps
        slow = 0.0
        if seconds >= self.window and steps:
            slow = self._slow_share() * seconds
            self.paces.append(seconds / steps)
            self.usual = median(self.paces)
        self.now["slow_s"] += slow
        self.now["productive_s"] += seconds - slow
        self.open_s, self.open_steps, self.told, self.told_s = 0.0, 0, 0.0, 0.0

    def _slow_share(self) -> float:
        """Return which share of the full window was lost to slowness; learn its level."""
        level: float | None = self.open_steps / self.open_s
        if self.measured:
            level = self.told / self.told_s if self.told_s else None
        if level is None:
            return 0.0
        usual = median(self.levels) if len(self.levels) >= ENOUGH else None
        if usual is None or level >= (1.0 - self.drop) * usual:
            self.levels.append(level)
            self.now["slow_run"] = 0
            return 0.0
        self.now["slow_run"] += 1
        if self.now["slow_run"] >= SETTLED:
            self.levels.clear()
            self.levels.append(level)
            self.now["slow_run"] = 0
        return 1.0 - level / usual

    def freeze(self) -> Stepping:
        """Return the value."""
        changes = {
            "at": self.at, "step": self.step, "high": self.high, "usual_step_s": self.usual,
            "open_s": self.open_s, "open_steps": self.open_steps, "breaks": tuple(self.breaks),
            "late": self.late, "measured": self.measured, "spoilt_now": self.spoilt_now,
            "spoilt": tuple(self.spoilt),
            "open_sum": self.told, "open_sum_s": self.told_s,
            "levels": tuple(self.levels), "paces": tuple(self.paces), "early": tuple(self.early),
        }  # fmt: skip
        # Once a second for each run, and all of it our own making: not validated again.
        return self.former.model_copy(update={**self.now, **changes})
