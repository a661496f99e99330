"""C-14, flapping: it starts again and again, whatever ends it. A person must look.

A restart is a job that was seen to live after another one, or after its own end; one that its
platform makes under the same id is counted by the platform, and those of a monitor by its state
file. Each counts only where it is known to lie within the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.observed import MonitorValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.present import job_of, job_source, phase_of

_CREATED: Final = re.compile(r"(?:^|/)(\d{8}-\d{4})[^/]*_monitoring_state\.json$")


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
        title=f"it flaps: {most.times} restarts within {wording.span(limits.flap_window)}",
        since=most.since,
        evidence=tuple(
            line for each in counted for line in present.evidence(each.source, each.text)
        ),
        confidence="likely",
        next_action=f"escalate to {wording.person(run)}; another relaunch is no default any more",
    )


def _counts(run: RunSpec, history: History) -> Iterator[Restarts]:
    since = history.now - run.thresholds.flap_window
    seen = [at for at in _seen(history) if since <= at <= history.now]
    if seen:
        text = f"started again {len(seen)} times, last at {wording.moment(seen[-1])}"
        yield Restarts(len(seen), seen[0], text, "recorded phases")
    job, launched = job_of(history), history.launched
    ours = job is not None and launched is not None and job.launch_id == launched.launch_id
    if job is not None and job.restarts and ours and launched is not None and launched.at >= since:
        text = f"its platform counts {job.restarts} restarts since its launch"
        yield Restarts(job.restarts, launched.at, text, job_source(history))
    monitor = history.facets.monitor
    count = None if monitor.value is None else monitor.value.restart_count
    begun = None if monitor.value is None else created_at(monitor.value)
    if count and begun is not None and begun >= since:
        text = f"the monitor counts {count} restarts since {wording.moment(begun)}"
        yield Restarts(count, begun, text, monitor.source)


def _seen(history: History) -> Iterator[float]:
    """Yield when a job was seen to live after another one, or after its own end."""
    marks = [mark for mark in history.phases if mark.phase is not Phase.UNKNOWN]
    for former, mark in pairwise(marks):
        another = None not in (former.job_id, mark.job_id) and former.job_id != mark.job_id
        if mark.phase.lives and (former.phase.terminal or another):
            yield mark.at


def created_at(monitor: MonitorValue) -> float | None:
    """Return when a monitor's state file was begun, as its name says (SPEC W)."""
    match = _CREATED.search(monitor.path or "")
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
