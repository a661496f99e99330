"""C-25, what a launch has left: a job that was accepted, never let go, and waits held for good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec

IN_HAND: Final = 180.0
"""Seconds within which a launch lets go what it has accepted, or its look-up ends it."""


def held_leftover(run: RunSpec, job: JobValue, now: float) -> Iterator[Alert]:
    """C-25: a held job of a former launch is left; it starts only if somebody lets it go."""
    left = [each for each in job.held if now - _since(each, now) > IN_HAND]
    if not left:
        return
    names = ", ".join(each.id for each in left)
    them = "it" if len(left) == 1 else "them"
    launches = ", ".join(dict.fromkeys(each.launch_id or "a launch" for each in left))
    yield Alert(
        id="C-25",
        key=f"C-25:held:{run.name}",
        severity=Severity.WARNING,
        title=f"Held job left over from {launches}: {names}",
        since=min(_since(each, now) for each in left),
        evidence=tuple(_line(each, job.rivals_source, now) for each in left),
        confidence="sure",
        next_action=f"cockpit stop {run.name} --only held cancels {them}; release none of them",
    )


def _since(job: LiveJob, now: float) -> float:
    return now if job.started_at is None else job.started_at


def _line(job: LiveJob, source: str, now: float) -> Evidence:
    text = f"{job.id}, since {wording.moment(_since(job, now))}: {job.name} ({job.why})"
    return Evidence(text=text, source=source)
