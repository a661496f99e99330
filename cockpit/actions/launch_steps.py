"""The steps that are a first launch's own: it resumes from nothing of this lineage."""

from __future__ import annotations

from cockpit.actions import stop_steps
from cockpit.actions.action import Doing, SkipStep, StepError
from cockpit.actions.checks.origin import named_step
from cockpit.actions.relaunch_steps import as_planned, config_of, filled, nothing_lives
from cockpit.actions.snapshot import snapshot_of
from cockpit.actions.submitting import note_snapshot, submit
from cockpit.model.observed import Pick
from cockpit.model.run import RunSpec


async def archive(doing: Doing) -> str:
    """Archive what a job before this one has left; a run that never ran has nothing."""
    if doing.ground.report.facets.job.value is None:
        raise SkipStep("there was no job before")
    return await stop_steps.evidence(doing)


async def look_again(doing: Doing) -> str:
    """Look once more before anything is started; raises ``StepError``."""
    run = doing.ground.spec
    await nothing_lives(doing, run)
    report = await doing.ground.parts.look(run.name)
    value = report.facets.checkpoints.value
    if value is not None and value.latest_complete is not None:
        raise StepError("not started: there is a complete checkpoint now; this is a relaunch")
    code, config = report.facets.code.value, await config_of(run)
    as_planned(doing, code, config)
    origin = _origin(run)
    words, template = filled(run, run.launch or run.resubmit, doing, origin)
    used = snapshot_of(
        run, code, words, template, config, origin,
        launch_id=doing.launch_id, action=doing.plan.action, at=doing.entry.begun_at,
    )  # fmt: skip
    await note_snapshot(doing, used)
    return "nothing of this lineage lives, and there is no complete checkpoint"


async def go(doing: Doing) -> str:
    """Submit the recorded launch command."""
    run = doing.ground.spec
    words, _ = filled(run, run.launch or run.resubmit, doing, _origin(run))
    return await submit(doing, run, words)


def _origin(run: RunSpec) -> Pick | None:
    """Return the checkpoint of another run that this one begins with, if it does."""
    source = run.checkpoints.initialize_from if run.checkpoints is not None else None
    if source is None:
        return None
    return Pick(path=str(source), step=named_step(source.path) or 0, why="initialize_from")
