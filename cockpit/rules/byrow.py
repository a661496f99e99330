"""What opened and closed within the rows, row by row, whatever the moments somebody looked at.

A look sees what holds at that moment. What came and went since the last one shows only here:
each row is judged as it is folded, as far as anything changes with it. The same judge serves the
live loop, batch by batch, and a whole history at once (``replay``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import JobValue, Phase, Row, TrackerValue
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.metrics.mismatch import resume_mismatch
from cockpit.rules.metrics.nonfinite import non_finite
from cockpit.rules.metrics.numerics import TrendFold
from cockpit.rules.metrics.spike import loss_spike
from cockpit.rules.metrics.stability import unstable
from cockpit.rules.metrics.throughput import throughput_collapse

SOURCE: Final = "logged rows"
BY_ROWS: Final = (non_finite, unstable, loss_spike, resume_mismatch, throughput_collapse)
"""The rules whose alerts open and close with a row."""
MOST: Final = 20_000
"""Events that are kept of the rows between two looks; those after them are counted."""
DESCRIBED: Final = 8
"""Rows after an opening at which it is described anew; then after twice as many, and so on."""


class Happened(NamedTuple):
    """An alert as it opened, at which step and when; and where it closed, if it did.

    Times are the rows' own (epoch seconds), ``None`` where no row has told any.
    """

    alert: Alert
    opened_step: int | None
    opened_at: float | None
    closed_step: int | None = None
    closed_at: float | None = None
    over: bool = False


class Standing(NamedTuple):
    """What a ``RowJudge`` remembers between two batches: what is open, and where the rows are."""

    open: tuple[Happened, ...] = ()
    rows: int = 0
    step: int | None = None
    at: float | None = None
    again: int = 0
    wait: int = DESCRIBED


class Judgement(NamedTuple):
    """A batch folded: the trend, what to go on from, and what is over since the batch before."""

    trend: Trend
    standing: Standing
    over: tuple[Happened, ...]


class RowJudge:
    """Folds rows in logged order; ``over`` collects what has closed, ``open`` is open by key.

    ``left_out`` counts the events that ``over`` has no room for.

    The result does not depend on how rows are cut into batches. O(1) a row: the rules are asked
    only where a fold has changed its mind, and of what stays open at doubled distances.
    """

    def __init__(
        self, run: RunSpec, trend: Trend, standing: Standing, *, whole: bool = True
    ) -> None:
        self._run = run
        self.fold = TrendFold(trend, run, whole=whole)
        self.open = {each.alert.key: each for each in standing.open}
        self.over: list[Happened] = []
        self.left_out = 0
        self.rows, self.step, self.at = standing.rows, standing.step, standing.at
        self._again, self._wait = standing.again, standing.wait
        self._flags = self.fold.marks()

    def add(self, row: Row) -> None:
        """Take one row; one without a time is of the moment of the row before it."""
        self.rows += 1
        self.fold.add(row)
        if row.at is not None:
            self.at = row.at
        if row.step is not None:
            self.step = row.step
        flags = self.fold.marks()
        if flags != self._flags:
            self._flags = flags
            self._judge()
        elif self.open and self.rows >= self._again:
            self._judge()

    def stretch(self, rows: Sequence[Row], longest: float) -> int:
        """Take as many of the next rows together as surely open nothing; return how many.

        Only while nothing is open. No time between two is above ``longest`` (s).
        """
        taken = 0 if self.open else self.fold.stretch(rows, longest)
        if taken:
            self.rows += taken
            self.step, self.at = rows[taken - 1].step, rows[taken - 1].at
        return taken

    def freeze(self) -> Standing:
        """Return what to go on from."""
        return Standing(
            tuple(self.open.values()), self.rows, self.step, self.at, self._again, self._wait
        )

    def history(self, now: float, frozen: Trend | None = None) -> History:
        """Return what the rules may look at: the rows, of a job that is taken to run.

        To freeze the fold is dear: ``frozen`` is it, where no row came since it was made.
        """
        trend = self.fold.freeze() if frozen is None else frozen
        job = JobValue(id=None, state="RUNNING", phase=Phase.RUNNING)
        seen = TrackerValue(
            id=None, state="running", last_step_at=trend.last_step_at, step=trend.pace.step
        )
        facets = Facets(
            job=Facet(source=SOURCE, value=job, observed_at=now, since=now),
            tracker=Facet(source=SOURCE, value=seen, observed_at=now, since=now),
        )
        return History(now=now, trend=trend, facets=facets)

    def _judge(self) -> None:
        history = self.history(self.at or 0.0)
        found: dict[str, Alert] = {}
        for rule in BY_ROWS:
            for alert in rule(self._run, history):
                found.setdefault(alert.key, alert)
        for key in [key for key in self.open if key not in found]:
            self._close(key)
        self._wait = self._wait * 2 if found.keys() == self.open.keys() else DESCRIBED
        self._again = self.rows + self._wait
        for key, alert in found.items():
            former = self.open.get(key)
            if former is None:
                self.open[key] = Happened(alert, self.step, self.at)
            else:
                since = min(former.alert.since, alert.since)
                alert = alert.model_copy(update={"since": since})
                self.open[key] = former._replace(alert=alert)

    def _close(self, key: str) -> None:
        opened = self.open.pop(key)
        if len(self.over) >= MOST:
            self.left_out += 1
            return
        self.over.append(opened._replace(closed_step=self.step, closed_at=self.at, over=True))


def judge_rows(trend: Trend, standing: Standing, rows: Sequence[Row], run: RunSpec) -> Judgement:
    """Return ``rows`` folded as ``advance`` does, and what has come and gone within them."""
    if not rows:
        return Judgement(trend, standing, ())
    judge = RowJudge(run, trend, standing)
    for row in rows:
        judge.add(row)
    return Judgement(judge.fold.freeze(), judge.freeze(), tuple(judge.over))
