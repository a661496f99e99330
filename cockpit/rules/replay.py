"""The rules over a whole history, as if live: what opened and closed, at which row (``backtest``).

Every row is judged, so the answer does not depend on when a cockpit happened to look; where no
row came for a while, the moments are looked at in which a watch would have looked: one a cadence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.alert import Evidence
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.byrow import SOURCE, Happened, RowJudge, Standing
from cockpit.rules.jobs.stall import step_stalled
from cockpit.rules.metrics.calm import BLOCK, FEWEST

JOBLESS: Final = "the rows do not tell whether its job was running or another one started"
REPLAYED: Final = frozenset(("C-05", "C-06", "C-09", "C-10", "C-11", "C-12"))
NOT_REPLAYED: Final = tuple(
    name for number in range(1, 27) if (name := f"C-{number:02}") not in REPLAYED
)
"""Conditions that no history of rows tells of."""
USUAL: Final = 32
"""Rows after which the usual time between two of them is taken anew."""
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
