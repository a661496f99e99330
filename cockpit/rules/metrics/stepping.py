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
    "first_at", "productive_s", "rework_s", "slow_s", "pauses_s", "unlisted_s", "steps_again",
    "backs", "measured", "open_sum", "open_sum_s", "slow_run",
)  # fmt: skip


class SteppingFold:
    """Accumulates a ``Stepping``.

    A step counts once: the time to train what had been trained before (up to the highest step)
    is rework. That is the same number of steps as those that were lost, at the pace of now.
    Of a window of one cadence that is slower by ``throughput_drop`` than the median of those
    before, only what the steps take at the usual level is productive (as C-05 calls it low).
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

    def add(self, row: Row, step: int | None, resumed: bool) -> None:
        """Take one row; ``step`` is training's step after it, ``resumed``: it went back."""
        if step is None or row.at is None or row.step != step or step == self.step:
            return
        if self.at is None or self.step is None or self.high is None:
            self.now["first_at"], self.high = row.at, step
        elif resumed:
            self._back(row.at, step)
        elif row.at > self.at:
            self._forward(row.at - self.at, step, row.throughput)
        self.at = row.at if self.at is None else max(self.at, row.at)
        self.step, self.high = step, max(step, self.high or step)

    def _back(self, at: float, step: int) -> None:
        assert self.at is not None and self.step is not None
        self.now["steps_again"] += self.step - step + 1
        self.now["backs"] += 1
        self._close_window()
        self._list(Break(self.at, max(self.at, at), self.step, True))

    def _forward(self, took: float, step: int, throughput: float | None) -> None:
        assert self.at is not None and self.step is not None and self.high is not None
        count = step - self.step
        usual = self._usual(took / count)
        trained = took
        least = max(PAUSE * usual * count, self.window / SHORTEST) if usual is not None else took
        if usual is not None and took > least:
            trained = usual * count
            self._pause(Break(self.at + trained, self.at + took, self.step, False))
        new = max(0, step - max(self.high, self.step)) / count
        self.now["rework_s"] += trained * (1.0 - new)
        self._train(trained * new, round(new * count), throughput)

    def _usual(self, pace: float) -> float | None:
        """Return the usual seconds a step, by the first ones until a window is full.

        Their mean: where steps are logged in pairs, a median would be that of one of the two.
        """
        if self.usual is None:
            self.early.append(pace)
            if len(self.early) >= EARLY:
                self.usual = fmean(self.early)
        return self.usual

    def _pause(self, found: Break) -> None:
        if found.until - found.since < self.window:
            self.now["pauses_s"] += found.until - found.since
        else:
            self._close_window()
            self._list(found)

    def _list(self, found: Break) -> None:
        if len(self.breaks) == LISTED:
            self.now["unlisted_s"] += self.breaks[0].until - self.breaks[0].since
        self.breaks.append(found)

    def _train(self, seconds: float, steps: int, throughput: float | None) -> None:
        self.open_s += seconds
        self.open_steps += steps
        if throughput is not None and math.isfinite(throughput) and throughput > 0:
            if not self.now["measured"]:
                self.now["measured"] = True  # another unit: the levels so far compare with nothing
                self.levels.clear()
            self.now["open_sum"] += throughput * seconds
            self.now["open_sum_s"] += seconds
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
        self.open_s, self.open_steps = 0.0, 0
        self.now["open_sum"] = self.now["open_sum_s"] = 0.0

    def _slow_share(self) -> float:
        """Return which share of the full window was lost to slowness; learn its level."""
        level: float | None = self.open_steps / self.open_s
        if self.now["measured"]:
            told = self.now["open_sum_s"]
            level = self.now["open_sum"] / told if told else None
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
            "levels": tuple(self.levels), "paces": tuple(self.paces), "early": tuple(self.early),
        }  # fmt: skip
        # Once a second for each run, and all of it our own making: not validated again.
        return self.former.model_copy(update={**self.now, **changes})
