"""Restarts inside one job, by its steps (C-12, C-14): elastic agents, shell loops, containers.

The job's process and id stay as they are. Its steps go back after a break that is longer than
usual, which a trainer that starts anew needs, and rows that come late do not.
"""

from __future__ import annotations

from cockpit.model.goodput import Break
from cockpit.model.history import History, Launched
from cockpit.rules.present import job_of

LONGER = 1.5
"""How many times the usual time between two logged steps a new start takes at least."""

START_SLACK = 5.0
"""Seconds by which a job may seem to have started before its launch was noted."""


def our_launch(history: History) -> Launched | None:
    """Return our last launch if the present job is its job, and no later one's."""
    launched, job = history.launched, job_of(history)
    if launched is None or job is None or job.launch_id == launched.launch_id:
        return launched
    later = job.started_at is not None and job.started_at > launched.at + START_SLACK
    return None if later and job.id != launched.job_id else launched


def restarts_in_place(history: History) -> tuple[Break, ...]:
    """Return the breaks at which the present job's steps began again, oldest first."""
    job, launched = job_of(history), our_launch(history)
    if job is None or job.started_at is None:
        return ()
    began = max(job.started_at, 0.0 if launched is None else launched.begun)
    found: dict[int, Break] = {}
    for trend in (history.log_trend, history.trend):
        usual = trend.pace.usual_gap_s
        if usual is None:
            continue
        for each in trend.stepping.breaks:
            in_job = each.since >= began and each.until <= history.now
            if each.back and in_job and each.until - each.since > LONGER * usual:
                found.setdefault(round(each.until), each)
    return tuple(found[at] for at in sorted(found))
