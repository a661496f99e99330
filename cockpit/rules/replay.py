"""The rules over a whole history, as if live: what opened and closed, at which row (``backtest``).

Every row is judged, so the answer does not depend on when a cockpit happened to look; where no
row came for a while, the moments are looked at in which a watch would have looked: one a cadence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from cockpit.model.alert import Alert, Evidence
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import JobValue, Phase, Row, TrackerValue
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.jobs.stall import step_stalled
from cockpit.rules.metrics.mismatch import resume_mismatch
from cockpit.rules.metrics.nonfinite import non_finite
from cockpit.rules.metrics.numerics import TrendFold
from cockpit.rules.metrics.spike import loss_spike
from cockpit.rules.metrics.stability import unstable
from cockpit.rules.metrics.throughput import throughput_collapse

SOURCE: Final = "logged rows"
JOBLESS: Final = "whether its job ran meanwhile, or another was started, the rows do not tell"
BY_ROWS: Final = (non_finite, unstable, loss_spike, resume_mismatch, throughput_collapse)
"""The rules whose alerts open and close with a row."""
REPLAYED: Final = frozenset(("C-05", "C-06", "C-09", "C-10", "C-11", "C-12"))
NOT_REPLAYED: Final = tuple(
    name for number in range(1, 27) if (name := f"C-{number:02}") not in REPLAYED
)
"""Conditions that no history of rows tells of."""
USUAL: Final = 32
"""Rows after which the usual time between two of them is taken anew."""
Flags = tuple[object, ...]


class Happened(NamedTuple):
    """An alert as it opened, at which step and when; and where it closed, if it did."""

    alert: Alert
    opened_step: int | None
    opened_at: float
    closed_step: int | None = None
    closed_at: float | None = None


class Replay:
    """Takes rows in logged order; ``ended`` tells all that happened, in the order of opening."""

    def __init__(self, run: RunSpec) -> None:
        self._run = run
        self._fold = TrendFold(Trend(), run)
        self._flags: Flags = ()
        self._open: dict[str, Happened] = {}
        self._over: list[Happened] = []
        self.rows = 0
        self.step: int | None = None
        self._at = 0.0
        self._usual, self._usual_of = 0.0, -USUAL

    def add(self, row: Row) -> None:
        """Take one row; a row without a time is of the moment of the one before it."""
        self.rows += 1
        self._silence(row)
        fold = self._fold
        fold.add(row)
        self._at = row.at if row.at is not None else self._at
        self.step = row.step if row.step is not None else self.step
        flags = fold.marks()
        if flags != self._flags:
            self._flags = flags
            self._judge()

    def ended(self) -> list[Happened]:
        """Return what happened; what is open still has no end."""
        both = [*self._over, *self._open.values()]
        return sorted(both, key=lambda each: (each.opened_at, each.opened_step or 0))

    def _history(self, now: float) -> History:
        trend = self._fold.freeze()
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
        history = self._history(self._at)
        found: dict[str, Alert] = {}
        for rule in BY_ROWS:
            for alert in rule(self._run, history):
                found.setdefault(alert.key, alert)
        for key in [key for key in self._open if key not in found]:
            self._close(key, self.step, self._at)
        for key, alert in found.items():
            if key not in self._open:
                self._open[key] = Happened(alert, self.step, self._at)

    def _close(self, key: str, step: int | None, at: float) -> None:
        self._over.append(self._open.pop(key)._replace(closed_step=step, closed_at=at))

    def _silence(self, row: Row) -> None:
        """Look at the time without rows before this one: C-06 opens in it and closes with it."""
        last, every = self._fold.pace.at, self._run.cadence
        if row.at is None or last is None or row.at - last <= every:
            return
        if row.at - last < self._run.thresholds.stall_factor * self._usual_gap() / 2:
            return  # far from a stall; to judge is dear
        looks = int((row.at - last) / every)
        if not self._stalls(last + looks * every):
            return
        low, high = 0, looks
        while high - low > 1:  # the first of the looks at which it had opened
            middle = (low + high) // 2
            low, high = (low, middle) if self._stalls(last + middle * every) else (middle, high)
        at = last + high * every
        for alert in step_stalled(self._run, self._history(at)):
            unknown = Evidence(text=JOBLESS, source=SOURCE)
            told = {"confidence": "guess", "evidence": (*alert.evidence, unknown)}
            silent = alert.model_copy(update=told)
            self._over.append(Happened(silent, self.step, at, row.step, row.at))

    def _usual_gap(self) -> float:
        """Return about the usual time between two logged steps (s), 0 where it is not known."""
        if self.rows - self._usual_of >= USUAL:
            self._usual, self._usual_of = self._fold.pace.freeze().usual_gap_s or 0.0, self.rows
        return self._usual

    def _stalls(self, now: float) -> bool:
        return any(True for _ in step_stalled(self._run, self._history(now)))


def replay(rows: Iterable[Row], run: RunSpec) -> Replay:
    """Return the whole of a history replayed."""
    found = Replay(run)
    for row in rows:
        found.add(row)
    return found
