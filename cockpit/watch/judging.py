"""One run judged: facets and folds in, alerts and a report out. Pure; the rules do the thinking."""

from __future__ import annotations

import functools
from typing import NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.observed import JobValue, LogValue, Phase, Row, Triage
from cockpit.model.report import Facets, Progress, RunReport
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.judge import judge
from cockpit.rules.numerics import advance
from cockpit.rules.progress import progress, with_baseline
from cockpit.rules.triage import triage
from cockpit.rules.verdict import next_action, verdict
from cockpit.watch.runstate import RunState

STATE_WORDS = {Phase.FAILED: "failed", Phase.CANCELLED: "cancelled"}


class Case(NamedTuple):
    """One run as it is at one moment; ``log_rows`` are to be folded into ``log_trend`` first."""

    spec: RunSpec
    history: History
    log_trend: Trend
    log_rows: tuple[Row, ...]


class Judged(NamedTuple):
    """What the rules say of one run at one moment, before it is held against the past."""

    spec: RunSpec
    history: History
    alerts: tuple[Alert, ...]
    progress: Progress
    log_trend: Trend


def case_of(state: RunState, now: float) -> Case:
    """Return what the rules may look at; the log's new rows are handed over with it."""
    rows = state.rows
    history = History(
        now=now,
        facets=state.facets,
        trend=rows.trend,
        phases=tuple(state.phases),
        checkpoints=tuple(state.marks),
        rows_from=0.0 if rows.complete or not rows.any else rows.skipped,
        job_named=state.spec.job is not None,
        stop_ordered_by=state.stop_ordered_by,
        former_failures=state.failures,
        launched=state.launched,
        sealed_by=state.sealed,
    )
    new, state.log_rows = state.log_rows, ()
    return Case(state.spec, history, state.log_trend, new)


def judged(case: Case) -> Judged:
    """Judge one run; the log's rows stand in where the tracker has given none."""
    spec, history = case.spec, case.history
    log_trend = advance(case.log_trend, case.log_rows, spec) if case.log_rows else case.log_trend
    trend = history.trend if history.trend.rows else log_trend
    facets = with_baseline(with_triage(history.facets), trend)
    history = history.model_copy(update={"facets": facets, "trend": trend})
    return Judged(spec, history, judge(spec, history), progress(spec, history), log_trend)


def report_of(found: Judged, alerts: tuple[Alert, ...], state: RunState) -> RunReport:
    """Return the report of a judged run, with its alerts as they are kept over time."""
    return RunReport(
        spec=found.spec,
        checked_at=found.history.now,
        verdict=verdict(found.spec, found.history, alerts),
        facets=found.history.facets,
        progress=found.progress,
        alerts=alerts,
        closed=state.closed_alerts(),
        next_action=next_action(found.spec, found.history, alerts),
        next_check_at=state.next_check_at,
        watched_by=state.watched_by,
    )


def with_triage(facets: Facets) -> Facets:
    """Fill the log's triage in for a job that ended without success (SPEC T)."""
    job, log = facets.job.value, facets.log.value
    if job is None or log is None or job.phase not in STATE_WORDS:
        return facets
    return facets.model_copy(update={"log": _triaged(facets.log, log, job)})


def _triaged(facet: Facet[LogValue], log: LogValue, job: JobValue) -> Facet[LogValue]:
    lines = tuple(line.plain for line in log.lines)
    state = job.state if job.state.isupper() else STATE_WORDS[job.phase]
    found = _triage(lines, state, job.exit_code)
    return facet.model_copy(update={"value": log.model_copy(update={"triage": found})})


@functools.lru_cache(maxsize=1024)
def _triage(lines: tuple[str, ...], state: str, exit_code: int | None) -> Triage:
    """Read a log that stands still once, not at every judging: it takes milliseconds."""
    return triage(lines, state, exit_code)
