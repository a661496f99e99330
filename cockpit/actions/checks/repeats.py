"""C-14 in a plan: the same failure again, or one relaunch after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.actions.ground import Ground
from cockpit.model.history import FormerFailure, History
from cockpit.model.observed import MonitorValue
from cockpit.model.plan import Basis, Check, Outcome
from cockpit.rules import say
from cockpit.rules.repeated import failure_of, identity, same_again

_CREATED = re.compile(r"(?:^|/)(\d{8}-\d{4})[^/]*_monitoring_state\.json$")


def present_failure(ground: Ground) -> FormerFailure | None:
    """Return the failure that a relaunch would recover from: an end, or a stall."""
    named, job = ground.spec.job is not None, ground.report.facets.job.value
    history = History(now=ground.now, facets=ground.report.facets, job_named=named)
    stalled = any(alert.id == "C-06" for alert in ground.report.alerts)
    if job is not None and not job.phase.terminal and stalled:
        step = ground.report.progress.step
        return FormerFailure(at=ground.now, job_id=identity(job), name="stalled", step=step)
    return failure_of(ground.spec, history)


def not_again(ground: Ground, former: Sequence[FormerFailure]) -> list[Check]:
    """Check C-14: a second failure of one kind, or flapping, needs a name and a reason."""
    now = present_failure(ground)
    same = () if now is None else same_again(former, now)
    flapping = _flapping(ground)
    if same or flapping:
        text = "; ".join((*same[:2], *flapping))
        if len(same) > 2:
            text += f"; {len(same) - 2} more like it"
        return [blocked("C-14", text, Basis.RECORDED, overridable=True)]
    text = "no earlier failure like this is recorded" if now is not None else "nothing has failed"
    return [passed("C-14", text, Basis.RECORDED), *_counted(ground)]


def _flapping(ground: Ground) -> tuple[str, ...]:
    limits = ground.spec.thresholds
    since = ground.now - limits.flap_window
    ours = [
        entry
        for entry in ground.entries
        if entry.action == "relaunch" and entry.outcome is Outcome.DONE and entry.begun_at >= since
    ]
    within = f"within {say.span(limits.flap_window)}"
    if len(ours) >= limits.flap_restarts:
        return (f"relaunched {len(ours)} times {within}: it flaps",)
    monitor = ground.report.facets.monitor.value
    restarts = monitor.restart_count if monitor is not None else None
    if monitor is None or restarts is None or restarts < limits.flap_restarts:
        return ()
    created = created_at(monitor)
    if created is not None and created >= since:
        return (f"the monitor counts {restarts} restarts {within}: it flaps",)
    return ()


def _counted(ground: Ground) -> list[Check]:
    monitor = ground.report.facets.monitor.value
    restarts = monitor.restart_count if monitor is not None else None
    if restarts is None or restarts < ground.spec.thresholds.flap_restarts:
        return []
    text = f"the monitor counts {restarts} restarts so far, over a longer time"
    return [warned("restarts", text, Basis.RECORDED)]


def created_at(monitor: MonitorValue) -> float | None:
    """Return when a monitor's state file was begun, as its name says (SPEC W)."""
    match = _CREATED.search(monitor.path or "")
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
