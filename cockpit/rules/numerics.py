"""The fold of logged rows into a ``Trend``: the one place where rows become memory."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.nonfinite import KEY_METRIC_ROWS, LOSS_ROWS, FiniteFold
from cockpit.rules.pace import PaceFold
from cockpit.rules.spike import SpikeFold
from cockpit.rules.throughput import ThroughputFold


def advance(trend: Trend, rows: Sequence[Row], run: RunSpec) -> Trend:
    """Return ``trend`` with ``rows`` (in logged order) folded in.

    The result does not depend on how rows are cut into batches. Steps may repeat or go back
    (a resume), times may be missing; a row counts only for the metrics that it carries.
    """
    if not rows:
        return trend
    pace = PaceFold(trend.pace)
    throughput = ThroughputFold(trend.throughput, run)
    spike = SpikeFold(trend.loss, run)
    loss = FiniteFold(trend.loss_finite, "loss", LOSS_ROWS)
    grad = FiniteFold(trend.grad_finite, "grad_norm", KEY_METRIC_ROWS)
    for row in rows:
        pace.add(row)
        throughput.add(row, pace.resumed, pace.rate)
        spike.add(row)
        loss.add(row, row.loss)
        grad.add(row, row.grad_norm)
    return Trend(
        rows=trend.rows + len(rows),
        last=rows[-1],
        pace=pace.freeze(),
        throughput=throughput.freeze(),
        loss=spike.freeze(),
        loss_finite=loss.freeze(),
        grad_finite=grad.freeze(),
    )
