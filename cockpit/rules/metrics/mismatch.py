"""C-12, after a restart: the loss does not go on where the former instance's was.

Every restart counts, whoever made it: one that goes back is seen in the rows; of one that
replays nothing its job's start tells, for a pause alone may be an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.run import RunSpec
from cockpit.model.trend import Seam
from cockpit.rules import present
from cockpit.rules.metrics.resume import resumed_elsewhere
from cockpit.rules.metrics.seam import DIFFERING, LEVEL
from cockpit.rules.present import CLOCK_SKEW, job_of, may_train, still_open

SLACK: Final = CLOCK_SKEW
"""Seconds by which a job's start may seem to lie outside the pause that it made."""


def resume_mismatch(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-12 (loss): from where it shows until the next start; one restart is one alert."""
    seam = _seam(history)
    if seam is None or not may_train(history) or not _settled(run, history, seam):
        return
    if any(True for _ in resumed_elsewhere(run, history)):
        return  # it has loaded something else: that its loss is another one follows
    yield Alert(
        id="C-12",
        key=_key(run, seam),
        severity=Severity.ALERT,
        title=f"Resumed at step {wording.step(seam.first)}, but the loss does not match: "
        f"{_title(seam)}",
        since=present.first(seam.at, history.trend.last_step_at, history.now),
        evidence=(*present.evidence("logged rows", *_lines(run, seam)), *present.gap(history)),
        confidence="sure" if seam.back and history.rows_from == 0 else "likely",
        next_action=(
            f"compare config, data order and checkpoint of both starts; {wording.escalate(run)}"
            f" before {run.name} trains much further"
        ),
    )


def _settled(run: RunSpec, history: History, seam: Seam) -> bool:
    """Tell whether the former trend is known: not while rows before the first one read are missing.

    What both have logged is compared step by step, and needs no trend.
    """
    if seam.differ >= DIFFERING or history.rows_from == 0:
        return True
    return still_open(history, _key(run, seam)) is not None


def _key(run: RunSpec, seam: Seam) -> str:
    return f"C-12:loss:{run.name}:{seam.last}-{seam.first}"


def _seam(history: History) -> Seam | None:
    """Return the last restart whose loss does not fit."""
    known = history.trend.resumption
    if known.found is not None:
        return known.found
    job = job_of(history)
    starts = [None if job is None else job.started_at]
    starts.append(None if history.launched is None else history.launched.begun)
    for seam in reversed(known.shifts):
        low, high = seam.ended, seam.at
        if low is None or high is None:
            continue
        if any(at is not None and low - SLACK <= at <= high + SLACK for at in starts):
            return seam
    return None


def _title(seam: Seam) -> str:
    if seam.differ >= DIFFERING:
        return f"{seam.differ} of {seam.compared} compared steps differ"
    level, expected = seam.level or 0.0, seam.expected or 0.0
    way = "above" if level > expected else "below"
    share = abs(level - expected) / abs(expected) if expected else 0.0
    return f"{wording.percent(share, 1)} {way} the previous trend"


def _lines(run: RunSpec, seam: Seam) -> Iterator[str]:
    limits = run.thresholds
    yield f"the previous job had logged up to step {wording.step(seam.last)}"
    if seam.compared:
        worst = f", the most by {seam.worst:+.3g} at step {wording.step(seam.worst_step)}"
        yield (
            f"{seam.differ} of {seam.compared} steps logged by both differ by more than"
            f" {limits.resume_catchup:g}{worst if seam.differ else ''}"
        )
    if seam.lr is not None and seam.lr_now is not None:
        yield f"learning rate {seam.lr:.4g} before the restart, {seam.lr_now:.4g} after it"
    if seam.level is not None and seam.expected is not None:
        yield (
            f"median of {LEVEL} rows {wording.number(seam.level)}, the previous job's trend gives"
            f" {wording.number(seam.expected)}; limit {wording.percent(limits.resume_after, 1)}"
        )
