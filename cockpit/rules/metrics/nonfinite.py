"""C-09, non-finite: one loss row, or three rows in a row of another key metric."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import TrendFinding, WatchedMetric
from cockpit.rules import present

LOSS_ROWS = 1
KEY_METRIC_ROWS = 3

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
        self.metric, self.needed = metric, needed

    def add(self, row: Row, value: float | None) -> None:
        """Take one row's value of the metric."""
        if value is None:
            return
        if not math.isfinite(value):
            self._broken(row, value)
        elif self.finding is not None or self.pending is not None:
            self._finite(row)

    def _broken(self, row: Row, value: float) -> None:
        seen = self.finding or self.pending
        if seen is None:
            seen = TrendFinding(
                metric=self.metric, step=row.step, at=row.at, value=str(value), last_step=row.step
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
        return WatchedMetric(finding=self.finding, pending=self.pending)


def findings(history: History) -> list[TrendFinding]:
    """Return every open finding: in the folded rows, in the log's rows, in the newest value.

    The tracker's newest value counts only where its row is not folded already.
    """
    trend, log, value = history.trend, history.facets.log.value, history.facets.tracker.value
    fold = FiniteFold(WatchedMetric(), "loss", LOSS_ROWS)
    for row in log.rows if log is not None else ():
        fold.add(row, row.loss)
    seen = (trend.loss_finite.finding, trend.grad_finite.finding, fold.finding)
    found = [finding for finding in seen if finding is not None]
    if found or value is None or value.loss is None or math.isfinite(value.loss):
        return found
    step, folded = value.step, trend.pace.step
    if step is not None and folded is not None and folded >= step:
        return []
    text = str(value.loss)
    return [
        TrendFinding(metric="loss", step=step, at=value.last_step_at, value=text, last_step=step)
    ]


def non_finite(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-09: critical, and never to be answered by a relaunch as if it were infrastructure."""
    found = findings(history)
    if not found:
        return
    first = found[0]
    yield Alert(
        id="C-09",
        key=f"C-09:{run.name}",
        severity=Severity.CRITICAL,
        title=f"{first.metric} is {first.value} at step {wording.step(first.step)}",
        since=present.first(first.at, history.trend.last_step_at, history.now),
        evidence=(*present.evidence("logged rows", *map(_line, found)), *present.gap(history)),
        confidence="sure",
        next_action=(
            f"escalate to {wording.person(run)}; do not relaunch as if it were infrastructure"
        ),
    )


def _line(found: TrendFinding) -> str:
    when = f" at {wording.moment(found.at)}" if found.at is not None else ""
    text = f"{found.metric} {found.value} at step {wording.step(found.step)}{when}"
    if found.count > 1:
        text += f"; {found.count} rows up to step {wording.step(found.last_step)}"
    return text
