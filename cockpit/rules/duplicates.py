"""C-25, duplicate job: two live jobs write to one output root or one W&B run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.jobs import LiveJob
from cockpit.model.lineage import root_key, wandb_key
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import say
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
    lines = [_recorded(job)] if recorded else []
    lines += [_rival(rival) for rival in job.rivals]
    yield Alert(
        id="C-25",
        key=f"C-25:{run.name}",
        severity=Severity.CRITICAL,
        title=f"{len(job.rivals) + recorded} live jobs write to {_what(run)}",
        since=min(began, default=seen_at(facet, history.now)),
        evidence=tuple(Evidence(text=line, source="process table") for line in lines),
        confidence="sure",
        next_action=_next(job, recorded=recorded),
    )


def sharing(run: RunSpec, others: Sequence[RunSpec]) -> tuple[str, ...]:
    """Return one line for each other run that would write to the same output root or W&B run."""
    found = []
    for other in others:
        if other.name == run.name:
            continue
        if root_key(run) is not None and root_key(run) == root_key(other):
            found.append(f"{other.name} has the same output root {run.output_root}")
        if wandb_key(run) is not None and wandb_key(run) == wandb_key(other):
            found.append(f"{other.name} has the same W&B run")
    return tuple(found)


def _recorded(job: JobValue) -> str:
    launch = f", launch {job.launch_id}" if job.launch_id else ""
    return f"{job.id}{launch}, since {_since(job.started_at)}: the recorded job"


def _rival(rival: LiveJob) -> str:
    return f"{rival.id}, since {_since(rival.started_at)}: {rival.name} ({rival.why})"


def _since(instant: float | None) -> str:
    return "unknown" if instant is None else say.moment(instant)


def _what(run: RunSpec) -> str:
    return f"output root {run.output_root}" if run.output_root else "one W&B run"


def _next(job: JobValue, *, recorded: bool) -> str:
    if recorded:
        others = ", ".join(rival.id for rival in job.rivals)
        return f"stop exactly one of them: {job.id} is the recorded one, {others} is not"
    return "none of them is the recorded job: stop exactly all but one"
