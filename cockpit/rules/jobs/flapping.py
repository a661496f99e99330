"""C-14, flapping: it starts again and again, whatever ends it. A person must look.

A restart is an execution that was seen to run after another one, whoever started it; those that a
platform makes under one id are counted by the platform, too, those of a monitor by its state
file, and those that happen inside one job by its steps. Each counts only where it is known to lie
within the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History, PhaseMark
from cockpit.model.observed import JobValue, MonitorValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.in_place import restarts_in_place
from cockpit.rules.present import job_of, job_source, phase_of

_CREATED: Final = re.compile(r"(?:^|/)(\d{8}-\d{4})[^/]*_monitoring_state\.json$")


_SHOWN: Final = 5
"""Restarts whose times are told."""
SAME_START: Final = 60.0
"""Seconds by which one start may be told differently."""


class Restarts(NamedTuple):
    """So many restarts within the window, since when they count, and who has counted them."""

    times: int
    since: float
    text: str
    source: str


def flapping(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-14: ``flap_restarts`` within ``flap_window``; over once fewer lie within it."""
    limits = run.thresholds
    counted = [each for each in _counts(run, history) if each.times >= limits.flap_restarts]
    if not counted or phase_of(history) is Phase.SUCCEEDED or history.stop_ordered_by is not None:
        return
    most = max(counted, key=lambda each: each.times)
    yield Alert(
        id="C-14",
        key=f"C-14:{run.name}:flapping",
        severity=Severity.ALERT,
        title=f"Keeps restarting: {most.times} times within {wording.span(limits.flap_window)}",
        since=most.since,
        evidence=tuple(
            line for each in counted for line in present.evidence(each.source, each.text)
        ),
        confidence="likely",
        next_action=f"{wording.escalate(run)}: find out what ends it each time, before"
        " anybody relaunches it again",
    )


def _counts(run: RunSpec, history: History) -> Iterator[Restarts]:
    since = history.now - run.thresholds.flap_window
    seen = [at for at in history.restarts if since <= at <= history.now]
    if seen:
        times = ", ".join(wording.moment(at) for at in seen[-_SHOWN:])
        text = f"{len(seen)} restarts seen: {times}; limit {run.thresholds.flap_restarts}"
        opened = seen[min(len(seen), run.thresholds.flap_restarts) - 1]
        yield Restarts(len(seen), opened, text, job_source(history))
    job, launched = job_of(history), history.launched
    ours = job is not None and launched is not None and job.launch_id == launched.launch_id
    if job is not None and job.restarts and ours and launched is not None and launched.at >= since:
        text = f"its platform counts {job.restarts} restarts since its launch"
        yield Restarts(job.restarts, launched.at, text, job_source(history))
    inside = [each.until for each in restarts_in_place(history) if each.until >= since]
    if inside:
        times = ", ".join(wording.moment(at) for at in inside[-_SHOWN:])
        text = f"{len(inside)} restarts inside the job, by its steps: {times}"
        opened = inside[min(len(inside), run.thresholds.flap_restarts) - 1]
        yield Restarts(len(inside), opened, text, _steps_source(history))
    monitor = history.facets.monitor
    count = None if monitor.value is None else monitor.value.restart_count
    begun = None if monitor.value is None else created_at(monitor.value)
    if count and begun is not None and begun >= since:
        text = f"the monitor counts {count} restarts since {wording.moment(begun)}"
        yield Restarts(count, begun, text, monitor.source)


def _steps_source(history: History) -> str:
    tracked = history.trend is not history.log_trend
    return (history.facets.tracker if tracked else history.facets.log).source


def restarted(former: JobValue, job: JobValue) -> bool:
    """Tell whether a job that runs is another execution than the ``former`` one.

    One that was suspended, or that nobody could see, is the same: it began when it began.
    """
    if former.id != job.id:
        return True
    both = (former.started_at, job.started_at)
    return None not in both and (both[1] or 0.0) - (both[0] or 0.0) > SAME_START


def restarts_in(marks: Sequence[PhaseMark]) -> tuple[float, ...]:
    """Return when a job was seen running after one of another id had run, or after its own end."""
    told = [mark for mark in marks if mark.phase is Phase.RUNNING or mark.phase.terminal]
    return tuple(
        mark.at
        for former, mark in pairwise(told)
        if mark.phase is Phase.RUNNING and (former.phase.terminal or mark.job_id != former.job_id)
    )


def created_at(monitor: MonitorValue) -> float | None:
    """Return when a monitor's state file was begun, as its name says (SPEC W)."""
    match = _CREATED.search(monitor.path or "")
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
