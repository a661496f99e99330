"""Every rule of SPEC C that looks at a run, in one table; and the order in which it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cockpit.model.alert import Alert
from cockpit.model.history import History
from cockpit.model.run import RunSpec
from cockpit.rules.causes import with_causes
from cockpit.rules.jobs.duplicates import duplicate_job
from cockpit.rules.jobs.host import host_pressure
from cockpit.rules.jobs.jobstate import (
    monitor_stale,
    pending_too_long,
    place_unknown,
    preemption_noticed,
    state_unknown,
    walltime_short,
)
from cockpit.rules.jobs.restarts import flapping, same_failure_again
from cockpit.rules.jobs.stall import log_begun_anew, log_frozen, step_stalled
from cockpit.rules.jobs.terminal import ended_not_success, launch_unsettled
from cockpit.rules.lineage.checkpoints import checkpoint_not_advancing, rollback_cover_thin
from cockpit.rules.lineage.drift import code_drifts, config_drifts
from cockpit.rules.lineage.identity import identity_drifts
from cockpit.rules.lineage.paths import output_elsewhere, wrong_checkpoint
from cockpit.rules.lineage.success import records_overdue, success_without_artifacts
from cockpit.rules.metrics.loss import loss_spike
from cockpit.rules.metrics.nonfinite import non_finite
from cockpit.rules.metrics.resume import resume_mismatch, resumed_elsewhere
from cockpit.rules.metrics.stability import unstable
from cockpit.rules.metrics.throughput import throughput_collapse
from cockpit.rules.metrics.writers import log_mixed

Rule = Callable[[RunSpec, History], Iterable[Alert]]

RULES: tuple[Rule, ...] = (
    ended_not_success,
    state_unknown,
    place_unknown,
    launch_unsettled,
    monitor_stale,
    pending_too_long,
    throughput_collapse,
    step_stalled,
    checkpoint_not_advancing,
    rollback_cover_thin,
    non_finite,
    unstable,
    loss_spike,
    resumed_elsewhere,
    resume_mismatch,
    same_failure_again,
    flapping,
    success_without_artifacts,
    host_pressure,
    log_frozen,
    log_begun_anew,
    walltime_short,
    preemption_noticed,
    identity_drifts,
    code_drifts,
    output_elsewhere,
    wrong_checkpoint,
    config_drifts,
    duplicate_job,
    log_mixed,
)


def judge(run: RunSpec, history: History) -> tuple[Alert, ...]:
    """Return the conditions that hold now, worst first, one alert for each identity.

    Inside a severity the oldest comes first, and the monitor's own staleness (C-03) last.
    C-24 comes after the others: what they find is what the records must tell of.
    """
    found: dict[str, Alert] = {}
    for rule in RULES:
        for alert in rule(run, history):
            found.setdefault(alert.key, alert)
    for alert in records_overdue(run, history, tuple(found.values())):
        found.setdefault(alert.key, alert)
    return worst_first(with_causes(run, sorted(found.values(), key=_rank)))


def worst_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return alerts in the order of reading; inside a severity what only follows comes last.

    The first one is never a consequence: none is more severe than its cause.
    """
    return tuple(sorted(alerts, key=_rank))


def _rank(each: Alert) -> tuple[int, bool, bool, float, str]:
    follows = each.caused_by is not None
    return -each.severity.rank, each.id == "C-03", follows, each.since, each.key
