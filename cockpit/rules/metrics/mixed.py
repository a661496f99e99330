"""C-25 of a log: two runs write into it by turns, and whose step is whose it does not tell.

The ranks of one job write theirs by turns, too, near each other; and a trainer may count twice, in
its epoch and over all, with one loss. Two rows of steps far apart, with losses of their own, are
two runs: unless the final step tells them apart, neither is shown as this run's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import LogValue, Row
from cockpit.model.report import Facets
from cockpit.model.run import RunSpec
from cockpit.model.trend import Writer
from cockpit.rules import present
from cockpit.rules.metrics.writers import LEAP, PATIENT, SEEN_ONCE

TURNS = 8
"""How often two must have taken turns."""
APART = 0.02
"""Share by which their losses differ at least."""


class Mixed(NamedTuple):
    """Two that write one log: the ``own`` one where that is known, and both by their steps."""

    low: Writer
    high: Writer
    own: Writer | None


def mixed(run: RunSpec, history: History) -> Mixed | None:
    """Return the two runs of a log; ``None`` where it is one's, or a tracker tells the steps."""
    if history.trend is not history.log_trend and history.trend.rows:
        return None
    writers, log = history.log_trend.writers, history.facets.log.value
    first = writers.present
    going_on = [each for each in writers.left if each.proven]
    other = max(going_on, key=lambda each: each.row, default=None)
    if log is None or first is None or other is None or writers.turns < TURNS:
        return None
    silent = writers.rows - min(first.row, other.row) > PATIENT * max(first.gap, other.gap, 1)
    near = abs(first.step - other.step) <= LEAP * max(first.stride, other.stride, SEEN_ONCE)
    losses = [_loss_near(each, log.rows) for each in (first, other)]
    if silent or near or None in losses:
        return None
    one, two = (each or 0.0 for each in losses)
    if abs(one - two) <= APART * max(abs(one), abs(two)):
        return None
    low, high = sorted((first, other), key=lambda each: each.step)
    final = run.final_step
    return Mixed(low, high, low if final is not None and low.step <= final < high.step else None)


def _loss_near(writer: Writer, rows: tuple[Row, ...]) -> float | None:
    return next((row.loss for row in reversed(rows) if _is_of(row, writer) and row.loss), None)


def _is_of(row: Row, writer: Writer) -> bool:
    reach = PATIENT * max(writer.stride, 1)
    return row.step is not None and abs(row.step - writer.step) <= reach


def log_mixed(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-25: a warning; it is no second job that could be stopped."""
    found = mixed(run, history)
    if found is None:
        return
    low, high = (wording.step(each.step) for each in (found.low, found.high))
    whose = "whose is whose is not known: step and loss are unknown"
    if found.own is not None:
        whose = f"the one beyond the final step of {wording.step(run.final_step)} is another run's"
    yield Alert(
        id="C-25",
        key=f"C-25:{run.name}:log",
        severity=Severity.WARNING,
        title="The log holds the steps of two runs",
        since=present.first(history.log_trend.writers.since, history.now),
        evidence=present.evidence(
            history.facets.log.source, f"by turns at step {low} and at step {high}; {whose}"
        ),
        confidence="likely",
        next_action="let each run write a log of its own",
    )


def without_the_other(run: RunSpec, history: History) -> Facets:
    """Return the facets without the loss of rows that may be another run's."""
    found, log = mixed(run, history), history.facets.log
    if found is None or log.value is None:
        return history.facets
    own = found.own
    rows = (
        row if own is not None and _is_of(row, own) else row._replace(loss=None)
        for row in log.value.rows
    )
    value = log.value.model_copy(update={"rows": tuple(rows)})
    facet: Facet[LogValue] = log.model_copy(update={"value": value})
    return history.facets.model_copy(update={"log": facet})
