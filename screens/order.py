"""In which order runs stand, and which of them pass a filter. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from cockpit.model.report import RunReport, Verdict

_NEED: Final = (
    Verdict.CRITICAL,
    Verdict.ATTENTION,
    Verdict.UNKNOWN,
    Verdict.FINISHED,
    Verdict.HEALTHY,
    Verdict.SEALED,
)


def _need(report: RunReport) -> tuple[int, int]:
    worst = max((each.severity.rank for each in report.alerts), default=-1)
    return _NEED.index(report.verdict), -worst


def _time_left(report: RunReport) -> float:
    left = report.progress.eta_s
    return math.inf if left is None or math.isnan(left) else left


SORTS: Final = ("need", "name", "file", "time left")
"""How runs can be sorted; equals keep the run file's order."""


def ordered(reports: Sequence[RunReport], sort: str) -> list[RunReport]:
    """Return the runs in this order."""
    if sort == "name":
        return sorted(reports, key=lambda each: each.name)
    if sort == "time left":
        return sorted(reports, key=_time_left)
    return sorted(reports, key=_need) if sort == "need" else list(reports)


def matching(reports: Sequence[RunReport], words: str) -> list[RunReport]:
    """Return the runs that have every word of a filter in name, state, alerts or kind."""
    wanted = words.casefold().split()
    return [each for each in reports if all(word in _haystack(each) for word in wanted)]


def _haystack(report: RunReport) -> str:
    job = report.facets.job.value
    spec = report.spec
    parts = [report.name, report.verdict.value, spec.group or "", spec.dri or "", spec.tier]
    parts += [job.phase.value] if job is not None else []
    parts += [spec.job.kind] if spec.job is not None else []
    parts += [f"{alert.id} {alert.title}" for alert in report.alerts]
    return " ".join(parts).casefold()
