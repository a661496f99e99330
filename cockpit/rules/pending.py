"""C-04, capacity wedge: a job that waits too long, or that can never start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.rules.present import job_of, job_source, phase_since, seen_at

NEVER = re.compile(r"DependencyNeverSatisfied|JobHeld|PartitionNodeLimit|BadConstraints", re.I)
"""Reasons (SPEC J) with which a job never starts, however long one waits."""


def pending_too_long(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-04: pending for longer than ``pending_after``, at once if it can never start."""
    job = job_of(history)
    if job is None or job.phase is not Phase.WAITING:
        return
    since = phase_since(history)
    never = NEVER.search(job.reason or "") is not None
    waited = seen_at(history.facets.job, history.now) - since
    if not never and waited <= run.thresholds.pending_after:
        return
    tasks = f", {job.tasks.running} of {job.tasks.total} tasks run" if job.tasks else ""
    text = f"{job.state}{tasks}: {job.reason or 'no reason given'}"
    advice = ": the request must change;" if never else " and keep waiting;"
    yield Alert(
        id="C-04",
        key=f"C-04:{run.name}",
        severity=Severity.WARNING,
        title="the job can never start" if never else "the job is still waiting",
        since=since,
        evidence=say.evidence(job_source(history), text),
        confidence="sure",
        next_action=f"tell {say.person(run)}{advice} never touch the cluster",
    )
