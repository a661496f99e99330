"""C-09: numbers that are NaN or inf; and the saves that unsound numbers may have spoilt."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.lineage import named
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Skips, Taint, Taints, Trend, TrendFinding, WatchedMetric
from cockpit.rules import present
from cockpit.rules.metrics.loss import ClimbFold, SpikeFold

LOSS_ROWS = 1
"""Rows with a loss that is no number, after which C-09 opens: one is enough."""
KEY_METRIC_ROWS = 3
"""The same for the gradient norm, which mixed precision makes infinite now and then."""

RECOVERED_ROWS = 100
"""Finite rows in a row after which the finding is over."""

RESTARTED_ROWS = 10
"""The same after training went on from a step before the finding (a rollback)."""


class FiniteFold:
    """Accumulates a ``Watched`` for one metric.

    A finding opens with ``needed`` non-finite rows in a row (rows without the metric count
    for nothing). It latches: one finite row after a NaN is no recovery. It is over after
    ``RECOVERED_ROWS`` finite rows in a row, or ``RESTARTED_ROWS`` once the step is earlier
    than the first non-finite one, which only a rollback or a relaunch can bring about.
    """

    def __init__(self, watched: WatchedMetric, metric: str, needed: int) -> None:
        self.finding, self.pending = watched.finding, watched.pending
        self.clean = watched.clean
        self.metric, self.needed = metric, needed
        self.steady = False
        """Another finite row changes nothing."""
        self._settle()

    def add(self, row: Row, value: float | None, skipped: bool = False) -> None:
        """Take one row's value of the metric.

        ``skipped`` tells that its optimizer step was left out: what overflows there is the loss
        scale being searched for. Such a value is neither sound nor the contrary.
        """
        if value is None:
            return
        finite = isfinite(value)
        if finite and self.steady:
            return  # most rows end here
        if finite:
            if self.clean < RECOVERED_ROWS:
                self.clean += 1
            if self.finding is not None or self.pending is not None:
                self._finite(row)
        elif not skipped:
            self._broken(row, value)
            self.clean = 0
        self._settle()

    def _settle(self) -> None:
        settled = self.finding is None and self.pending is None
        self.steady = settled and self.clean >= RECOVERED_ROWS

    def _broken(self, row: Row, value: float) -> None:
        seen = self.finding or self.pending
        if seen is None:
            masked = self.metric == "loss" and row.loss == 0.0
            seen = TrendFinding(
                metric=self.metric,
                step=row.step,
                at=row.at,
                value=f"0.0 beside a grad norm of {row.grad_norm}" if masked else str(value),
                last_step=row.step,
                first=self.clean >= RECOVERED_ROWS,
            )
        else:
            again = {"count": seen.count + 1, "last_step": row.step, "finite": 0, "earlier": False}
            seen = seen.model_copy(update=again)
        if self.finding is not None or seen.count >= self.needed:
            self.finding, self.pending = seen, None
        else:
            self.pending = seen

    def _finite(self, row: Row) -> None:
        self.pending = None
        found = self.finding
        if found is None:
            return
        back = row.step is not None and found.step is not None and row.step < found.step
        finite, earlier = found.finite + 1, found.earlier or back
        if finite >= (RESTARTED_ROWS if earlier else RECOVERED_ROWS):
            self.finding = None
        else:
            self.finding = found.model_copy(update={"finite": finite, "earlier": earlier})

    def freeze(self) -> WatchedMetric:
        """Return the value."""
        return WatchedMetric(finding=self.finding, pending=self.pending, clean=self.clean)


class SkipFold:
    """Accumulates ``Skips``: tells of each row whether its optimizer step was left out.

    Some trainers log a flag or the skips since the last row, others a count of all. A figure that
    stands still while the gradient is a number is such a count: then only its rise is a skip.
    """

    def __init__(self, skips: Skips) -> None:
        self._last, self._counter = skips.last, skips.counter

    def add(self, row: Row) -> bool:
        """Take one row and return whether its step was left out."""
        count = row.skipped
        if count is None or not isfinite(count):
            return False
        last, self._last = self._last, count
        sound = row.grad_norm is not None and isfinite(row.grad_norm)
        if sound and count == last > 0:
            self._counter = True
        return count > (last if self._counter else 0)

    def freeze(self) -> Skips:
        """Return the value."""
        return Skips(last=self._last, counter=self._counter)


def findings(history: History) -> list[TrendFinding]:
    """Return every open finding: in the folded rows, in the log's rows, in the newest value.

    Those of the loss come first, the earliest of them before the others. The tracker's newest
    value counts only where its row is not folded already; which row was the first one it
    cannot tell.
    """
    trend, log, value = history.trend, history.log_trend, history.facets.tracker.value
    tracked, logged = trend.loss_finite.finding, log.loss_finite.finding
    if log is trend or _over(logged, tracked, trend):
        logged = None
    found = sorted((each for each in (tracked, logged) if each is not None), key=_step_of)
    if trend.grad_finite.finding is not None:
        found.append(trend.grad_finite.finding)
    loss = None if value is None else value.true_loss
    if found or value is None or loss is None or isfinite(loss):
        return found
    step, folded = value.step, trend.pace.step
    if step is not None and folded is not None and folded >= step:
        return []
    newest = TrendFinding(
        metric="loss", step=step, at=value.last_step_at, value=str(loss), last_step=step
    )
    return [newest]


def _over(logged: TrendFinding | None, tracked: TrendFinding | None, trend: Trend) -> bool:
    """Tell whether the tracker, which has more rows, already says what the log's finding says.

    Either it has found the same no later, or it has seen the loss recover since.
    """
    if logged is None or tracked is not None:
        return logged is None or _step_of(logged) >= _step_of(tracked or logged)
    since = trend.pace.step or -1
    return trend.loss_finite.clean >= RECOVERED_ROWS and since > (logged.last_step or -1)


def is_first(found: TrendFinding, history: History) -> bool:
    """Tell whether a finding's step is known to be the first non-finite one.

    That is so where every row before it was read. Else an earlier one may stand in the rows
    that were not: the finding's own step is only the latest that it can be.
    """
    trend, tracker = history.trend, history.facets.tracker.value
    seen = (trend.loss_finite, trend.grad_finite, history.log_trend.loss_finite)
    folded = any(each.finding is found for each in seen)
    rows_of_tracker = tracker is not None and tracker.step is not None
    in_log = found is history.log_trend.loss_finite.finding
    if in_log and rows_of_tracker and history.rows_from > 0:
        return False  # the tracker's unread rows may hold one between two lines of the log
    unread = history.log_from if in_log else history.rows_from
    return folded and (found.first or unread == 0)


def _step_of(found: TrendFinding) -> int:
    return -1 if found.step is None else found.step


def non_finite(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-09: critical, and never to be answered by a relaunch as if it were infrastructure."""
    found = findings(history)
    if not found:
        return
    first, sure = found[0], is_first(found[0], history)
    lines = [_finding_text(each, history) for each in found]
    yield present.row_alert(
        history,
        key=f"C-09:{run.name}",
        title=f"{_called(first.metric)} is {_shown(first.value)} {_place(first, history)}",
        since=first.at,
        since_or_before=not sure,
        lines=lines,
        confidence="sure",
        next_action=_next(run, history),
    )


def _next(run: RunSpec, history: History) -> str:
    """Return what to do: a run that goes on without numbers burns its accelerators for nothing."""
    job, tracker = history.facets.job.value, history.facets.tracker.value
    loss = None if tracker is None else tracker.loss
    lives = job is not None and job.phase.lives
    if not lives or loss is None or isfinite(loss):
        return f"{wording.escalate(run)}; this is not an infrastructure failure, do not relaunch"
    saves = history.facets.checkpoints.value
    good = None if saves is None else saves.relaunch_from
    stop = f"stop {run.name}: no step since is worth anything; then"
    if good is not None and run.escalation == "own":
        return f"{stop} rollback {run.name} to {named(good)}"
    rollback = "" if good is None else f" about a rollback to {named(good)}"
    return f"{stop} {wording.escalate(run)}{rollback}"


def _called(metric: str) -> str:
    return wording.sentence(metric if "/" in metric else metric.replace("_", " "))


def _shown(value: str) -> str:
    return "NaN" if value == "nan" else value.replace("norm of nan", "norm of NaN")


def _place(found: TrendFinding, history: History) -> str:
    """Return where it began: a step that is not known to be the first is only the latest."""
    at = "at" if is_first(found, history) else "at or before"
    return f"{at} step {wording.step(found.step)}"


def _finding_text(found: TrendFinding, history: History) -> str:
    when = f" at {wording.moment(found.at)}" if found.at is not None else ""
    text = f"{found.metric} {_shown(found.value)} {_place(found, history)}{when}"
    if found.count > 1:
        whole = is_first(found, history) and found is not history.log_trend.loss_finite.finding
        least = "" if whole else "at least "
        text += f"; {least}{found.count:,} rows up to step {wording.step(found.last_step)}"
    return text


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
