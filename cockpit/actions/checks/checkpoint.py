"""C-17, the checkpoint: the newest complete one of this lineage, and what the trainer takes."""

from __future__ import annotations

from typing import Final

from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.actions.ground import Ground
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick
from cockpit.model.place import place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.rules import say

ID: Final = "C-17"
NONE: Final = "checkpoint"
_OWN_RULE: Final = ("custom", "nanogpt", "lightning")
"""Layouts whose trainers have no rule of their own that could be known."""


def resume_from(ground: Ground, *, named: bool) -> list[Check]:
    """Check what a relaunch would resume from; ``named``: the command says ``{checkpoint}``."""
    facet, run = ground.report.facets.checkpoints, ground.spec
    value = facet.value
    if not facet.configured:
        return [blocked(ID, "the run file names no checkpoints: it would start from scratch",
                        Basis.RECORDED)]  # fmt: skip
    if value is None or facet.error is not None:
        why = facet.error.message if facet.error is not None else "not listed yet"
        return [blocked(ID, f"the checkpoints are unknown: {why}")]
    if value.relaunch_from is None:
        return [blocked(NONE, _nothing(value, run))]
    pick = value.relaunch_from
    return [
        _picked(pick, value, run, named=named),
        *_judged_all(pick, value),
        *_of_this_run(ground, pick),
    ]


def _nothing(value: CheckpointsValue, run: RunSpec) -> str:
    there = ", ".join(f"{_step(item)} {item.state.value}" for item in value.items[-3:])
    text = f"no complete checkpoint{f' ({there})' if there else ''}; from scratch is a launch"
    return f"{text}, with {run.dri or 'the DRI'}'s approval (cockpit launch {run.name})"


def _picked(pick: Pick, value: CheckpointsValue, run: RunSpec, *, named: bool) -> Check:
    step, theirs = say.step(pick.step), value.trainer_would_load
    if named:
        text = f"the command names step {step} ({pick.why}): {pick.path}"
        return passed(ID, text, value=pick.path)
    if theirs is None:
        return _no_rule(pick, run)
    if theirs.path == pick.path:
        return passed(ID, f"picks step {step} ({pick.why}), and so does the trainer",
                      value=pick.path)  # fmt: skip
    state = next((item.state for item in value.items if item.path == theirs.path), None)
    how = "unknown" if state is None else state.value
    text = f"wanted is step {step} ({pick.why}), but the trainer would load"
    text += f" step {say.step(theirs.step)} ({how}; {theirs.why}): {theirs.path};"
    if state is CheckpointState.REJECTED:  # a rollback that was killed before it moved anything
        text += f" move it aside (cockpit rollback {run.name} --to {pick.step} --move yes), or"
    return blocked(ID, f"{text} name it in the command with {{checkpoint}}", value=theirs.path)


def _no_rule(pick: Pick, run: RunSpec) -> Check:
    layout = run.checkpoints.layout if run.checkpoints is not None else "auto"
    step = say.step(pick.step)
    if layout in _OWN_RULE:
        text = f"wanted is step {step}; what a {layout} trainer loads by itself is not known:"
        return warned(ID, f"{text} its first step will tell", Basis.INFERRED, pick.path)
    text = f"wanted is step {step}, but the trainer would find nothing and begin at step 0:"
    return blocked(ID, f"{text} name it in the command with {{checkpoint}}", value=pick.path)


def _judged_all(pick: Pick, value: CheckpointsValue) -> list[Check]:
    """Say what is newer than the pick and why it is passed over; what is unclear blocks."""
    newer = [item for item in value.items if _number(item) > pick.step]
    unclear = [item for item in newer if item.state is CheckpointState.UNKNOWN]
    if unclear:
        text = f"step {_step(unclear[-1])} is newer and cannot be judged: {unclear[-1].note or '?'}"
        return [blocked(f"{ID}:newer", text, value=unclear[-1].path)]
    writing = [item for item in newer if item.state is CheckpointState.WRITING]
    if writing:
        text = f"step {_step(writing[-1])} was still being written a moment ago: look again"
        return [warned(f"{ID}:newer", text, value=writing[-1].path)]
    return []


def _of_this_run(ground: Ground, pick: Pick) -> list[Check]:
    """Check that the pick lies in the run's own roots and that the run ever came that far."""
    item = _item(ground, pick)
    roots = ground.spec.checkpoints.path if ground.spec.checkpoints is not None else ()
    if item is not None and not any(root.contains(place_of(item.root)) for root in roots):
        text = f"{pick.path} lies in {item.root}, which is none of the run's roots"
        return [blocked(f"{ID}:root", text)]
    reached = last_step(ground)
    if reached is not None and pick.step > reached + _save_steps(ground):
        text = f"step {say.step(pick.step)} is beyond the last step logged, {say.step(reached)}:"
        return [warned(f"{ID}:step", f"{text} see that it is of this run")]
    return []


def _item(ground: Ground, pick: Pick) -> Checkpoint | None:
    value = ground.report.facets.checkpoints.value
    items = value.items if value is not None else ()
    return next((item for item in items if item.path == pick.path), None)


def last_step(ground: Ground) -> int | None:
    """Return the last step that the log or the tracker has seen of the run."""
    log, tracker = ground.report.facets.log.value, ground.report.facets.tracker.value
    told = [row.step for row in log.rows[-1:]] if log is not None else []
    told.append(tracker.step if tracker is not None else None)
    told.append(ground.report.progress.step)
    return max((step for step in told if step is not None), default=None)


def _save_steps(ground: Ground) -> int:
    """Return about how many steps lie between two saves: trackers are flushed late."""
    tracker, spec = ground.report.facets.tracker.value, ground.spec.checkpoints
    usual = tracker.usual_step_s if tracker is not None else None
    every = spec.save_every if spec is not None else None
    return 100 if not usual or not every else max(100, round(every / usual))


def _number(item: Checkpoint) -> int:
    return item.step if item.step is not None else item.name_step or -1


def _step(item: Checkpoint) -> str:
    return say.step(item.step if item.step is not None else item.name_step)


def from_scratch(ground: Ground) -> list[Check]:
    """Check that a launch finds an empty lineage; where one failed early, the DRI decides."""
    facet, run = ground.report.facets.checkpoints, ground.spec
    value, job = facet.value, ground.report.facets.job.value
    if value is None and facet.error is not None and facet.error.kind.value not in (
        "not_found", "not_configured",
    ):  # fmt: skip
        return [blocked(ID, f"the checkpoints are unknown: {facet.error.message}")]
    if value is not None and value.latest_complete is not None:
        text = f"there is a complete checkpoint of step {say.step(value.latest_complete)}"
        return [blocked(ID, f"{text}: this run is relaunched (cockpit relaunch {run.name})")]
    steps = ground.report.facets.tracker.value
    trained = job is not None or (steps is not None and steps.step is not None)
    if trained or (value is not None and value.items):
        text = "the run has begun before and has no complete checkpoint: it starts from scratch,"
        text += f" which only {run.dri or 'the DRI'} may approve"
        return [blocked(NONE, text, overridable=True)]
    return [passed(NONE, "starts from scratch: there is nothing of this lineage yet")]
