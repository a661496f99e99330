"""The rules over a whole history, row by row, as if live: what opened and closed, at which row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cockpit.model.alert import Alert, Evidence
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import JobValue, Phase, Row, TrackerValue
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.jobs.stall import step_stalled
from cockpit.rules.metrics.limits import past_limit
from cockpit.rules.metrics.loss import loss_spike, stepped_up
from cockpit.rules.metrics.nonfinite import non_finite
from cockpit.rules.metrics.numerics import TrendFold
from cockpit.rules.metrics.resume import resume_mismatch
from cockpit.rules.metrics.stability import unstable
from cockpit.rules.metrics.throughput import throughput_collapse
from cockpit.rules.metrics.usual import BLOCK, FEWEST

SOURCE: Final = "logged rows"
BY_ROWS: Final = (
    *(non_finite, unstable, loss_spike, stepped_up, resume_mismatch, throughput_collapse),
    past_limit,
)
"""The rules whose alerts open and close with a row."""
MOST: Final = 20_000
"""Events that are kept of the rows between two looks; those after them are counted."""
DESCRIBED: Final = 8
"""Rows after an opening at which it is described again; then after twice as many, and so on."""


class Happened(NamedTuple):
    """An alert as it opened, at which step and when; and where it closed, if it did.

    Times are the rows' own (epoch seconds), ``None`` where no row has one.
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
        self._flags = self.fold.alert_state()

    def add(self, row: Row) -> None:
        """Take one row; one without a time is of the moment of the row before it."""
        self.rows += 1
        self.fold.add(row)
        if row.at is not None:
            self.at = row.at
        if row.step is not None:
            self.step = row.step
        flags = self.fold.alert_state()
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


JOBLESS: Final = "the rows do not tell whether its job was running or another one started"
REPLAYED: Final = frozenset(("C-05", "C-06", "C-09", "C-10", "C-11", "C-12", "C-27"))
NOT_REPLAYED: Final = tuple(
    name for number in range(1, 28) if (name := f"C-{number:02}") not in REPLAYED
)
"""Conditions that no history of rows tells of."""
USUAL: Final = 32
"""Rows after which the usual time between two of them is taken again."""
ALONE: Final = 128
"""Rows that are taken one by one, at most, where they cannot be taken together."""


class Replay:
    """Takes rows in logged order; ``ended`` tells all that happened, in the order of opening."""

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._judge = RowJudge(run, Trend(), Standing(), whole=False)
        self._pace, self._every = self._judge.fold.pace, run.cadence
        self._silent: list[Happened] = []
        self._usual, self._usual_of = 0.0, -USUAL
        self._alone = FEWEST
        """How many rows are taken one by one before some are tried together again."""

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return self._judge.rows

    @property
    def left_out(self) -> int:
        """How many events were too many to be kept."""
        return self._judge.left_out

    @property
    def set_aside(self) -> int:
        """How many rows are a second writer's, by turns with those that the rules follow (C-25)."""
        return self._judge.fold.writers.freeze().aside

    @property
    def step(self) -> int | None:
        """The newest row's step."""
        return self._judge.step

    def extend(self, rows: Sequence[Row]) -> None:
        """Take rows as ``add`` does, those in which nothing happens together."""
        at = 0
        while at < len(rows):
            taken = self._judge.stretch(rows[at : at + BLOCK], self._every)
            if taken:
                self._alone = FEWEST
            else:
                for row in rows[at : at + self._alone]:
                    self.add(row)
                taken, self._alone = self._alone, min(2 * self._alone, ALONE)
            at += taken

    def add(self, row: Row) -> None:
        """Take one row; a row without a time is of the moment of the one before it."""
        last, at = self._pace.at, row.at
        if last is not None and at is not None and at - last > self._every:
            self._silence(row, last, at)
        self._judge.add(row)

    def ended(self) -> list[Happened]:
        """Return what happened; what is open still has no end."""
        both = [*self._judge.over, *self._silent, *self._judge.open.values()]
        return sorted(both, key=lambda each: (each.opened_at or 0.0, each.opened_step or 0))

    def _silence(self, row: Row, last: float, now: float) -> None:
        """Look at the time without rows before this one: C-06 opens in it and closes with it."""
        every = self._run.cadence
        if now - last < self._run.thresholds.stall_factor * self._usual_gap() / 2:
            return  # far from a stall; to judge is dear
        looks = int((now - last) / every)
        trend = self._judge.fold.freeze()
        if not self._stalls(last + looks * every, trend):
            return
        low, high = 0, looks
        while high - low > 1:  # the first of the looks at which it had opened
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self._stalls(last + middle * every, trend) else (middle, high)
            )
        at = last + high * every
        for alert in step_stalled(self._run, self._judge.history(at, trend)):
            unknown = Evidence(text=JOBLESS, source=SOURCE)
            told = {"confidence": "guess", "evidence": (*alert.evidence, unknown)}
            silent = alert.model_copy(update=told)
            self._silent.append(Happened(silent, self.step, at, row.step, row.at, over=True))

    def _usual_gap(self) -> float:
        """Return about the usual time between two logged steps (s), 0 where it is not known."""
        if self.rows - self._usual_of >= USUAL:
            pace = self._judge.fold.pace.freeze()
            self._usual, self._usual_of = pace.usual_gap_s or 0.0, self.rows
        return self._usual

    def _stalls(self, now: float, trend: Trend) -> bool:
        return any(True for _ in step_stalled(self._run, self._judge.history(now, trend)))


def replay(rows: Iterable[Row], run: RunSpec) -> Replay:
    """Return the whole of a history replayed."""
    found = Replay(run)
    for row in rows:
        found.add(row)
    return found
