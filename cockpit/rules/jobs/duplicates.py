"""C-25, duplicate job: two live jobs write to one output root or one W&B run."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.present import seen_at

LIVES = (Phase.RUNNING, Phase.WAITING)


def duplicate_job(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-25: besides the recorded job another one of the lineage lives, or two others do."""
    facet = history.facets.job
    job = facet.value
    if job is None or not job.rivals:
        return
    recorded = job.phase in LIVES
    if len(job.rivals) + recorded < 2:
        return
    began = [rival.started_at for rival in job.rivals if rival.started_at is not None]
    lines, advice = _evidence_and_advice(job, recorded=recorded)
    what = f"output root {run.output_root}" if run.output_root else "one W&B run"
    yield Alert(
        id="C-25",
        key=f"C-25:{run.name}",
        severity=Severity.CRITICAL,
        title=f"{len(job.rivals) + recorded} live jobs write to {what}",
        since=min(began, default=seen_at(facet, history.now)),
        evidence=present.evidence(job.rivals_source, *lines),
        confidence="sure",
        next_action=advice,
    )


def _evidence_and_advice(job: JobValue, *, recorded: bool) -> tuple[list[str], str]:
    """Return the line of each job, and the next action."""
    launch = f", launch {job.launch_id}" if job.launch_id else ""
    lines = [
        f"{rival.id}, since {_since(rival)}: {rival.name} ({rival.why})" for rival in job.rivals
    ]
    others = ", ".join(rival.id for rival in job.rivals)
    advice = "none of them is the recorded job: stop exactly all but one"
    if recorded:
        lines.insert(0, f"{job.id}{launch}, since {_since(job)}: the recorded job")
        advice = f"stop exactly one of them: {job.id} is the recorded one, {others} is not"
    return lines, advice


def _since(job: JobValue | LiveJob) -> str:
    return "unknown" if job.started_at is None else wording.moment(job.started_at)
