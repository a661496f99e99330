"""Which moments of a run are kept, and how much of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

from cockpit.model.facet import Facet
from cockpit.model.observed import TrackerValue
from cockpit.model.report import RunReport
from cockpit.rules.jobs.host import at_ease
from cockpit.store.pasts import Pasts
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import StoreWriter

LINES: Final = 60
"""Of each the newest so many are kept; of the curve points over the whole run."""
POINTS: Final = 160
CHECKPOINTS: Final = 40
CLOSED: Final = 20
TOLD: Final = 20

SAME_FOR: Final = 300.0
"""Seconds after which a run in which nothing has changed is written down again all the same."""

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


def is_written(state: RunState) -> bool:
    """Tell whether what is stored of a run says the same as its report, but for when it looked.

    It is written anew after ``SAME_FOR`` at the latest, and each run at another moment: a start
    after a crash shows what was seen until then. That it was looked at is observed each cadence.
    """
    report, stored = state.report, state.stored
    if report is None or stored is None or _content(report) != _content(stored):
        return False
    hosts = stored.facets.host.value, report.facets.host.value
    if hosts[0] != hosts[1] and not at_ease(report.spec, *hosts):
        return False
    share = 0.5 + 0.5 * (crc32(state.key.encode()) % 100) / 100
    return 0.0 <= report.checked_at - stored.checked_at < share * SAME_FOR


def _content(report: RunReport) -> tuple[object, ...]:
    """Return what a report says, apart from times of looking and a host's figures."""
    facets = [
        (facet.value if name != "host" else None, facet.error, facet.since, facet.remembered)
        for name, facet in report.facets.items()
    ]
    told = report.verdict, report.progress, report.alerts, report.closed, report.next_action
    return report.spec, *told, report.watched_by, report.owner, report.agents, facets


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
