"""C-05, throughput collapse; and where the time between steps goes (goodput)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import fmean, median

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.goodput import Break, Stepping
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import ThroughputTrend
from cockpit.rules import present
from cockpit.rules.lineage.drift import resized
from cockpit.rules.metrics.usual import SoundColumns, frozen, state_of
from cockpit.rules.present import job_of, job_source, may_train

KEPT_VALUES = 256
"""Rows kept of the running window; beyond it every second one is dropped, evenly."""

BLOCK = 12
"""Good windows whose median is a level."""

ENOUGH = 3
"""Good windows needed before anything is called low."""

HELD = 6
"""Good windows needed before a level counts as held and can no longer sink."""

BEGINS = 3
"""Cadences after a job's start within which its first low window begins, if it was never fast."""

REPORTED = 300
"""Characters of the settings that differ."""

SHOWN = 6
"""Newest low windows whose medians are kept as evidence."""


class ThroughputFold:
    """Accumulates a ``ThroughputTrend``.

    A window is one cadence long and starts with the first row (a resume starts a new one); it
    is complete when a row from after its end arrives, and its figure is the median. The first
    window after a start is not used: compiling and warming up are slow. The baseline is the
    highest median that ``BLOCK`` successive good windows have had, so that a slow decline
    does not take it along; low windows never enter it.
    """

    def __init__(self, trend: ThroughputTrend, run: RunSpec) -> None:
        self.cadence = max(run.cadence, 1e-3)
        self.drop = run.thresholds.throughput_drop
        self.measured, self.start, self.warming = trend.measured, trend.start, trend.warming
        self.values, self.stride, self.skip = list(trend.values), trend.stride, trend.skip
        self.good: deque[float] = deque(trend.good, BLOCK)
        self.best, self.latest = trend.best, trend.latest
        self.batch, self.first_batch = trend.batch, trend.first_batch
        self.good_batch = trend.good_batch
        self.low, self.low_since = trend.low, trend.low_since
        self.levels: deque[float] = deque(trend.levels, SHOWN)
        self.anew, self.anew_low, self.anew_since = trend.anew, trend.anew_low, trend.anew_since

    def add(self, row: Row, resumed: bool, rate: float | None, paused: bool = False) -> None:
        """Take one row; ``rate`` (steps/s) stands in where no row carries a throughput.

        ``paused`` tells that training stood still before it, for an evaluation or a save: then its
        steps over time say nothing of the speed of a step, whoever has divided the two.
        """
        if resumed:
            self._restart()
        value = row.throughput
        if value is not None and not self.measured:
            self.measured = True
            self._other_unit()
        elif value is None and not self.measured:
            value = rate
        if paused and value is not None and rate is not None and math.isclose(value, rate):
            return
        if row.batch is not None:
            self._sized(row.batch)
        if value is not None and self.batch is not None and not self.measured:
            value *= self.batch
        if value is None or row.at is None or not isfinite(value):
            return
        at, start = row.at, self.start
        if start is None or at >= start + self.cadence or at < start:
            self._roll(at)
        self.skip -= 1
        if self.skip <= 0:
            self._keep(value)

    def sure(self, rows: SoundColumns, count: int) -> int:
        """Return how many of the first ``count`` rows are of the running window."""
        told = rows.throughputs is not None
        if self.start is None or rows.ats[0] < self.start or (told and not self.measured):
            return 0
        if rows.batch is not None and rows.batch != self.batch:
            return 0
        return bisect_left(rows.ats, self.start + self.cadence, 0, count)

    def take(self, rows: SoundColumns, rates: Sequence[float]) -> None:
        """Take such rows; ``rates`` (steps/s) stand in where none carries a throughput."""
        values = rates if rows.throughputs is None else rows.throughputs
        if self.measured and rows.throughputs is None:
            return
        if self.batch is not None and not self.measured:
            values = [value * self.batch for value in values]
        at, done = max(self.skip, 1) - 1, 0
        while at < len(values):
            self._keep(values[at])
            done, at = at + 1, at + self.skip
        self.skip -= len(values) - done

    def _sized(self, batch: float) -> None:
        """Take a row's batch: from the first one on steps over time count its samples."""
        if batch > 0 and isfinite(batch):
            if self.batch is None and not self.measured:
                self._other_unit()
            self.batch = batch

    def _other_unit(self) -> None:
        """Start again: what was held before compares with nothing."""
        self.good.clear()
        self.best = self.latest = None
        self._restart()

    def _restart(self) -> None:
        self.start, self.warming = None, True
        self._forget_low()
        self.values, self.stride, self.skip = [], 1, 0

    def _forget_low(self) -> None:
        self.low, self.low_since = 0, None
        self.levels.clear()
        self.anew, self.anew_low, self.anew_since = None, 0, None

    def _roll(self, at: float) -> None:
        if self.start is None:
            self.start = at
        elif at < self.start - self.cadence:
            self._restart()
            self.start = at
        elif at >= self.start + self.cadence:
            self._close(self.start)
            self.start += self.cadence * ((at - self.start) // self.cadence)

    def _keep(self, value: float) -> None:
        self.skip = self.stride
        if not self.values:
            self.first_batch = self.batch
        self.values.append(value)
        if len(self.values) >= KEPT_VALUES:
            del self.values[1::2]
            self.stride *= 2

    def _close(self, start: float) -> None:
        values, warming = self.values, self.warming
        self.values, self.stride, self.skip = [], 1, 0
        if not values:
            return
        self.warming = False
        if warming:
            return
        self.latest = median(values)
        baseline = self.baseline()
        if baseline is not None and self.latest < baseline * (1 - self.drop):
            self.low += 1
            self.low_since = start if self.low_since is None else self.low_since
            self.levels.append(self.latest)
            self._learn_anew(self.latest, start)
            return
        self._forget_low()
        self.good_batch = self.first_batch
        self.good.append(self.latest)
        if len(self.good) >= HELD:
            held = median(self.good)
            self.best = held if self.best is None else max(self.best, held)

    def _learn_anew(self, latest: float, start: float) -> None:
        """Hold a low window against what the low ones have held: that may be the level now."""
        if self.anew is not None and latest < self.anew * (1 - self.drop):
            self.anew_low += 1
            self.anew_since = start if self.anew_since is None else self.anew_since
            return
        self.anew_low, self.anew_since = 0, None
        if len(self.levels) >= HELD:
            held = median(self.levels)
            self.anew = held if self.anew is None else max(self.anew, held)

    def baseline(self) -> float | None:
        """Return the level that a window is compared with, if there is one."""
        if len(self.good) < ENOUGH:
            return None
        now = median(self.good)
        return now if self.best is None else max(self.best, now)

    def freeze(self) -> ThroughputTrend:
        """Return the value."""
        return frozen(ThroughputTrend, self, baseline=self.baseline())


def throughput_collapse(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-05: enough complete windows in a row are low; over as soon as one is not.

    Where the job runs with another batch or on other hardware than the one before, what that has
    held compares with nothing: only what this one has held itself counts.
    """
    seen = history.trend.throughput
    other = resized_since(run, history, seen.low_since)
    if other:
        update = {"baseline": seen.anew, "low": seen.anew_low, "low_since": seen.anew_since}
        seen = seen.model_copy(update=update)
    low = seen.low >= run.thresholds.throughput_cadences
    if not low or not may_train(history) or not seen.baseline:
        return
    tracker = history.facets.tracker.value
    logged = (tracker.throughput_unit if tracker is not None else None) or "per second"
    unit = logged if seen.measured else "steps/s" if seen.batch is None else "samples/s"
    newest = seen.levels[-seen.low :]
    levels = ", ".join(wording.figure(level) for level in newest)
    limit = f"limit {wording.percent(run.thresholds.throughput_drop)} below"
    lines = (
        f"{levels} {unit} in the last {len(newest)} windows of {wording.span(run.cadence)}",
        f"baseline {wording.figure(seen.baseline)} {unit}; {limit}",
    )
    whole = history.rows_from == 0
    since_start = (*_since_start(run, history, seen), *other, *_other_batch(seen))
    least = "" if whole else "at least "
    drop = 1 - seen.levels[-1] / seen.baseline
    held = wording.lasting(seen.low * run.cadence)
    yield Alert(
        key=f"C-05:{run.name}",
        title=f"Throughput {wording.percent(drop)} below baseline for {least}{held}",
        since=history.now if seen.low_since is None else seen.low_since,
        since_or_before=not whole,
        evidence=(*present.evidence("logged rows", *lines), *since_start, *present.gap(history)),
        confidence="sure" if whole and not since_start else "likely",
        next_action="check data loading, node health, checkpoint stalls, recompilation",
    )


def resized_since(run: RunSpec, history: History, since: float | None) -> tuple[Evidence, ...]:
    """Return what of batch and hardware the job has otherwise, if it is slow since its start."""
    job, now, former = job_of(history), history.settings, history.former_settings
    if job is None or job.started_at is None or since is None:
        return ()
    if now is None or former is None or not _begins(run, job.started_at, since):
        return ()
    changed = resized(former.values, now.values)
    if not changed:
        return ()
    each = ", ".join(f"{key}: {former.values[key]} → {now.values[key]}" for key in changed[:3])
    text = f"the baseline is this job's own; the previous job had {each}"
    return present.evidence(f"{now.source} against the previous job", text[:REPORTED])


def _other_batch(seen: ThroughputTrend) -> Iterator[Evidence]:
    """Say that a step has another batch than at the baseline: then its speed is no surprise."""
    if seen.batch is not None and seen.good_batch is not None and seen.batch != seen.good_batch:
        was, now = wording.figure(seen.good_batch), wording.figure(seen.batch)
        yield from present.evidence("logged rows", f"batch {was} at the baseline, {now} now")


def _begins(run: RunSpec, started_at: float, since: float) -> bool:
    """Tell whether what is low since then was so from its job's first window on."""
    return 0 <= since - started_at <= BEGINS * run.cadence


def _since_start(run: RunSpec, history: History, seen: ThroughputTrend) -> Iterator[Evidence]:
    """Say so where it is slow since its job's start: fewer nodes or another batch are no fault.

    The baseline is that of the jobs before it. What they ran on is not in the rows.
    """
    job = job_of(history)
    if job is None or job.started_at is None or seen.low_since is None:
        return
    if _begins(run, job.started_at, seen.low_since):
        text = (
            f"low since this job's start at {wording.moment(job.started_at)}: the baseline is of"
            " the jobs before it; fewer nodes or another batch size would explain it"
        )
        yield from present.evidence(job_source(history), text)


PAUSE = 3.0
"""How many times the usual time without a step is none that was trained in."""
SHORTEST = 20.0
"""A pause is no shorter than this part of a cadence: less is the steps' own unevenness."""
EARLY = 8
"""Steps that tell the usual time before a window is full."""
WINDOWS = 32
"""Newest windows that were not slow, of which the median is the usual level."""
ENOUGH_LEVELS = 3
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
        self.usual_step_s = value.usual_step_s
        self.open_s, self.open_steps = value.open_s, value.open_steps
        self.open_sum, self.open_sum_s = value.open_sum, value.open_sum_s
        self.measured = value.measured
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
            self._take_other_writer(max(0.0, at - last), step, row.throughput)
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

    def _take_other_writer(self, took: float, step: int, throughput: float | None) -> None:
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
        usual = self.usual_step_s if self.usual_step_s is not None else self._usual(took / count)
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
        if self.usual_step_s is None:
            self.early.append(pace)
            if len(self.early) >= EARLY:
                self.usual_step_s = fmean(self.early)
        return self.usual_step_s

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
            self.open_sum += throughput * seconds
            self.open_sum_s += seconds
        if self.open_s >= self.window:
            self._close_window()

    def _close_window(self) -> None:
        """Settle what was trained since the last window; a part of one sets no level."""
        seconds, steps = self.open_s, self.open_steps
        slow = 0.0
        if seconds >= self.window and steps:
            slow = self._slow_share() * seconds
            self.paces.append(seconds / steps)
            self.usual_step_s = median(self.paces)
        self.now["slow_s"] += slow
        self.now["productive_s"] += seconds - slow
        self.open_s, self.open_steps, self.open_sum, self.open_sum_s = 0.0, 0, 0.0, 0.0

    def _slow_share(self) -> float:
        """Return which share of the full window was lost to slowness; learn its level."""
        level: float | None = self.open_steps / self.open_s
        if self.measured:
            level = self.open_sum / self.open_sum_s if self.open_sum_s else None
        if level is None:
            return 0.0
        usual = median(self.levels) if len(self.levels) >= ENOUGH_LEVELS else None
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
        # Once a second for each run, and all of it our own making: not validated again.
        return self.former.model_copy(update=self.now | state_of(Stepping, self, _SUMS))
