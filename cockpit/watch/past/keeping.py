"""Which moments of a run are kept, and how much of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from cockpit.model.facet import Facet
from cockpit.model.observed import TrackerValue
from cockpit.model.report import RunReport
from cockpit.store.pasts import Pasts
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import StoreWriter

LINES: Final = 60
"""Of each the newest so many are kept; of the curve points over the whole run."""
POINTS: Final = 160
CHECKPOINTS: Final = 40
CLOSED: Final = 20
TOLD: Final = 20

T = TypeVar("T")


def keep_moment(state: RunState, store_writer: StoreWriter, *, round_over: bool) -> None:
    """Keep the run as it is, with the next batch, if that is due.

    That is when its face is another one, or (``round_over``) once a cadence. What nobody has
    asked for yet is no moment of the run.
    """
    report = state.report
    if report is None or report.not_read_yet is not None or not state.may_judge:
        return
    face = face_of(report)
    if face == state.kept_face and not round_over:
        return
    state.kept_face = face
    key, every = state.key, state.spec.cadence
    store_writer.later(lambda store: Pasts(store).keep(key, slim(report), face, every))


def face_of(report: RunReport) -> str:
    """Return what is the same for as long as nothing has changed that a person must know.

    The verdict, the job and its phase, each open alert with its severity and who has taken it.
    """
    job = report.facets.job.value
    where = "" if job is None else f"{job.phase.value} {job.id}"
    alerts = sorted(
        f"{each.key} {each.severity.value}"
        f" {'' if each.acknowledged is None else each.acknowledged.at}"
        for each in report.alerts
    )
    return "\n".join((report.verdict.value, where, *alerts))


def slim(report: RunReport) -> RunReport:
    """Return a report as it is kept: the newest of what may be long."""
    facets = report.facets
    changes: dict[str, Facet[Any]] = {}
    if (log := facets.log.value) is not None:
        changes["log"] = _with(facets.log, lines=log.lines[-LINES:], offsets=log.offsets[-LINES:])
    if (tracker := facets.tracker.value) is not None:
        changes["tracker"] = _with(facets.tracker, history=_rounded(_curve(tracker)))
    if (found := facets.checkpoints.value) is not None:
        changes["checkpoints"] = _with(facets.checkpoints, items=found.items[-CHECKPOINTS:])
    if (records := facets.records.value) is not None:
        changes["records"] = _with(facets.records, told=records.told[:TOLD])
    kept = facets.model_copy(update=changes)
    whole = {"facets": kept, "closed": report.closed[:CLOSED], "agents": ()}
    return report.model_copy(update=whole)


def thinned(points: Sequence[T], most: int) -> tuple[T, ...]:
    """Return fewer than ``most`` of the points, evenly, the first and the last among them.

    As points are added the same ones stay, but when every other goes: what is kept of two moments
    differs little.
    """
    every = 1
    while len(points) // every >= most - 1:
        every *= 2
    last = points[-1:] if points and (len(points) - 1) % every else ()
    return (*points[::every], *last)


def _curve(tracker: TrackerValue) -> list[tuple[int, float]]:
    """Return the loss over all steps that are known, as (step, loss), oldest first."""
    parts = (
        (each.last, math.nan if each.mean is None else each.mean)
        for each in tracker.columns
        if each.mean is not None or each.nonfinite
    )
    return sorted(dict([*tracker.history, *parts]).items())


def _rounded(curve: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    return tuple((step, float(f"{loss:.6g}")) for step, loss in thinned(curve, POINTS))


def _with(facet: Facet[Any], **changes: object) -> Facet[Any]:
    value = facet.value
    return facet.model_copy(update={"value": value and value.model_copy(update=changes)})
