"""C-26, preemption notice: somebody says that the job is about to be taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.lineage import named, newest_good
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules.present import StepClock, job_of, job_source, of_present, seen_at

OVER: Final = 900.0
"""Seconds after a notice in which it comes true: who still trains then was not taken away."""
_TAKEN: Final = re.compile(
    r"\b(?:preempt(?:ed|ing|ion)|reclaim(?:ed|ing)|evict(?:ed|ing|ion))\b", re.I
)
_COUNTED: Final = re.compile(r"\bpreempted \d+ times?\b|\b\d+ preempted\b", re.I)
"""How often it was taken before, and what is taken by now: no notice of what is to come."""


def preemption_noticed(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-26: while the job still runs, and until it has trained on for longer than a notice is."""
    job = job_of(history)
    if job is None or job.phase is not Phase.RUNNING:
        return
    told = [*_by_log(history), *_by_others(history, job)]
    if not told:
        return
    after = f"; {job.queued[0].id} continues after it" if job.queued else ""
    value = history.facets.checkpoints.value
    newest = None if value is None else newest_good(value.items)
    saved = "no complete checkpoint known" if newest is None else f"{named(newest)} is complete"
    yield Alert(
        id="C-26",
        key=f"C-26:{run.name}:notice:{job.id}",
        severity=Severity.ALERT,
        title="Preemption notice: the job is about to be stopped",
        since=min(at for at, _ in told),
        evidence=tuple(line for _, line in told),
        confidence="likely",
        next_action=f"ask the trainer to save at once ({saved}); relaunch {run.name} once it has"
        f" ended, unless it restarts by itself{after}",
    )


def _by_log(history: History) -> Iterator[tuple[float, Evidence]]:
    log = history.facets.log
    notice = None if log.value is None else log.value.announced.notice
    if notice is None or not of_present(notice.at, history):
        return
    last = StepClock(history).last
    if last is None or last <= notice.at + OVER:
        text = f"{notice.line} (at {wording.moment(notice.at)})"
        yield notice.at, Evidence(text=text, source=log.source)


def _by_others(history: History, job: JobValue) -> Iterator[tuple[float, Evidence]]:
    """Yield what its platform says of it, and that the client has marked its run."""
    tracker = history.facets.tracker
    if job.preempted_at is not None:
        text = f"{job.id} was told to make room at {wording.moment(job.preempted_at)}"
        yield job.preempted_at, Evidence(text=text, source=job_source(history))
    if job.reason is not None and _TAKEN.search(_COUNTED.sub("", job.reason)):
        yield (
            seen_at(history.facets.job, history.now),
            Evidence(text=wording.with_reason(job.state, job.reason), source=job_source(history)),
        )
    marked = tracker.value is not None and tracker.value.state == "preempting"
    if tracker.value is not None and marked and of_present(tracker.value.heartbeat_at, history):
        text = 'W&B says "preempting"'
        yield seen_at(tracker, history.now), Evidence(text=text, source=tracker.source)
