"""The loss over a whole run, as it is drawn: exact as far as its rows were read, sampled beyond."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cockpit.model.curve import PackedColumns
from cockpit.model.observed import Column, Row
from cockpit.sources.wandb.loss_columns import LossColumns

POINTS = 120
"""Points of the series in the value."""


class Series:
    """The loss of every row in ``exact``; of the rest ``sampled`` rows, and the ``newest``.

    ``share`` is how much of the run ``exact`` covers, 0 to 1.
    """

    def __init__(
        self, exact: LossColumns, sampled: Sequence[Row], newest: Sequence[Row], share: float
    ) -> None:
        self.share = share
        self._exact = exact
        self._newest = [row for row in newest if row.step is not None]
        rows = [] if share == 1.0 else [row for row in sampled if row.step is not None]
        self._rows = sorted(rows, key=_step)

    def columns(self) -> Sequence[Column]:
        """Return the exact columns, and beyond them one for each sampled row."""
        exact = self._exact.columns()
        end = exact[-1].last if exact else -1
        beyond = [_single(row) for row in self._rows if _step(row) > end]
        return PackedColumns((*exact, *beyond)) if beyond else exact

    def points(self) -> tuple[tuple[int, float], ...]:
        """Return about ``POINTS`` logged (step, loss) points, the newest among them."""
        points = self._exact.points(POINTS) if self.share == 1.0 else _points(self._rows)
        last = _points(self._newest)[-1:]
        end = points[-1][0] if points else -1
        return points + tuple(point for point in last if point[0] > end)


def _points(rows: Sequence[Row]) -> tuple[tuple[int, float], ...]:
    return tuple((_step(row), loss) for row in rows if (loss := row.true_loss) is not None)


def _step(row: Row) -> int:
    return row.step or 0


def _single(row: Row) -> Column:
    step, loss = _step(row), row.true_loss
    if loss is None or not math.isfinite(loss):
        return Column(step, step, None, None, None, int(loss is not None))
    return Column(step, step, loss, loss, loss)
