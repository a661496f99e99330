"""How fast the steps come, from the rows' own times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from cockpit.model.observed import Row

STEPS_UNIT = "it/s"


class StepRate:
    """Fills in ``throughput`` (steps per second) row by row, for a run that logs none.

    A row at the step or the time of the one before says nothing; one at a lower step or an
    earlier time (a resumed run) starts anew.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._at = 0.0

    def fill(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield each row, with its rate where the rows before it give one."""
        for row in rows:
            seconds = self._seconds(row)
            yield row if seconds is None else row._replace(throughput=1.0 / seconds)

    def _seconds(self, row: Row) -> float | None:
        if row.step is None or row.at is None:
            return None
        steps = row.step - self._step if self._step is not None else -1
        passed = row.at - self._at
        if steps == 0 or (steps > 0 and passed == 0):
            return None
        self._step, self._at = row.step, row.at
        return passed / steps if steps > 0 and passed > 0 else None


def usual_step_seconds(rows: Sequence[Row]) -> float | None:
    """Return the median of seconds per step between one logged row and the next."""
    rates = [row.throughput for row in StepRate().fill(_bare(rows)) if row.throughput]
    return 1.0 / median(rates) if rates else None


def _bare(rows: Iterable[Row]) -> Iterator[Row]:
    return (Row(row.step, row.at) for row in rows)
