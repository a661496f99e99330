"""What must hold before a new lineage is begun: nothing of it is in use yet (SPEC A-3)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.checks import away
from cockpit.actions.core.context import ActionContext
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.command import places_in
from cockpit.text.checks import blocked, passed, warned

NEEDED: Final = ("output_root", "checkpoint")
SOURCE: Final = "source"
AWAY: Final = "C-16:away"
"""The check of an output root that is still to be looked at, where it lies."""


def unused(context: ActionContext, run: RunSpec) -> Iterator[Check]:
    """Check that run id, W&B id and output root are nobody's."""
    file = context.file
    wandb_id = run.wandb.id if run.wandb is not None else None
    if any(each.name == run.name for each in file.runs):
        yield blocked("run-id", f"{run.name} is already a run in cockpit.toml", Basis.RECORDED)
    else:
        yield passed("run-id", f"run id {run.name} is new", Basis.RECORDED, run.name)
    users = [
        each.name for each in file.runs if each.wandb is not None and each.wandb.id == wandb_id
    ]
    if users:
        yield blocked(
            "wandb-id", f"W&B id {wandb_id} is already used by {users[0]}", Basis.RECORDED
        )
    else:
        text = f"W&B id {wandb_id} is not used by another run here"
        yield passed("wandb-id", text, Basis.RECORDED, wandb_id)
    yield _root(context, run)


def _root(context: ActionContext, run: RunSpec) -> Check:
    place = run.output_root
    if place is None:
        return blocked("C-16", "the new lineage has no output root", Basis.RECORDED)
    root = str(place)
    for each in context.file.runs:
        theirs = each.output_root
        if theirs is not None and (place.contains(theirs) or theirs.contains(place)):
            text = f"{root} and the output root of {each.name} ({theirs}) overlap"
            return blocked("C-16", text, Basis.RECORDED, root)
    if not place.here:
        text = f"{root} cannot be checked for files from here"
        return warned(AWAY, text, Basis.INFERRED, root)
    trouble = _occupied(root)
    if trouble is not None:
        return blocked("C-16", trouble, value=root)
    return passed("C-16", f"{root} is empty", value=root)


async def looked_at(checks: list[Check], run: RunSpec, clock: Clock) -> list[Check]:
    """Return the checks with a look at an output root that does not lie on this machine."""
    place = run.output_root
    if place is None or not any(check.id == AWAY for check in checks):
        return checks
    trouble = await away.occupied(place, clock)
    text = f"{place} is empty"
    said = passed("C-16", text, value=str(place))
    if trouble is not None:
        said = blocked("C-16", trouble, value=str(place))
    return [said if check.id == AWAY else check for check in checks]


def _occupied(root: str) -> str | None:
    """Return why a local folder is not free; blocking."""
    try:
        with os.scandir(root) as entries:
            first = next(iter(entries), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{root}: {(error.strerror or 'cannot be read').lower()}"
    return None if first is None else f"{root} is not empty: {first.name}"


def source_of(context: ActionContext, asked: str) -> tuple[Pick | None, Check]:
    """Return the checkpoint to begin with, a step or a path, or why it cannot be used."""
    facet = context.report.facets.checkpoints
    if facet.value is None or facet.error is not None:
        why = facet.error.message if facet.error is not None else "not listed yet"
        return None, blocked(SOURCE, f"checkpoints unknown: {why}")
    found = _named(facet.value, asked.strip())
    good = [item for item in found if item.state is CheckpointState.COMPLETE]
    if good and good[-1].step is not None:
        best = max(good, key=_worth)
        pick = Pick(path=best.path, step=best.step or 0, why="chosen by the operator")
        text = f"starts from step {wording.step(pick.step)}, complete: {best.path}"
        if best.suspect is not None:
            text = f"step {wording.step(pick.step)} is suspect: {best.suspect}"
            return pick, blocked("suspect", text, value=best.path, overridable=True)
        return pick, passed(SOURCE, text, value=best.path)
    if found:
        why = f"{found[-1].state.value}{f', {found[-1].note}' if found[-1].note else ''}"
        return None, blocked(SOURCE, f"cannot start from {found[-1].path}: it is {why}")
    return None, blocked(
        SOURCE, f"{asked} is neither a step nor a path of a checkpoint of this run"
    )


def _worth(item: Checkpoint) -> tuple[bool, bool, float]:
    return (item.good, item.permanent is not False, item.saved_at or 0.0)


def _named(value: CheckpointsValue, asked: str) -> Sequence[Checkpoint]:
    digits = asked.lower().removeprefix("step-").replace(",", "").replace("_", "")
    if digits.isascii() and digits.isdigit():
        step = int(digits)
        return [item for item in value.items if step in (item.step, item.name_step)]
    path = asked.rstrip("/")
    return [item for item in value.items if item.path.rstrip("/") == path]


def takes_identity(run: RunSpec, template: Sequence[str], old: RunSpec) -> Iterator[Check]:
    """Check that the command takes the new identity, and names nothing of the old one."""
    missing = [name for name in NEEDED if name not in places_in(template)]
    if missing:
        words = " and ".join(f"{{{name}}}" for name in missing)
        text = f"resubmit does not take the new identity: add {words} to it"
        yield blocked("identity", text, Basis.RECORDED)
    elif "wandb_id" not in places_in(template):
        text = "resubmit does not name {wandb_id}: the new id is passed by WANDB_RUN_ID only"
        yield warned("identity", text, Basis.RECORDED)
    else:
        yield passed("identity", f"the command uses the identity of {run.name}", Basis.RECORDED)
    wandb_id = old.wandb.id if old.wandb is not None else None
    root = None if old.output_root is None else old.output_root.seen_from(old.job)
    still = [
        text
        for text in (root, wandb_id)
        if text and any(w == text or f"={text}" in w or f"{text}/" in w for w in template)
    ]
    if still:
        text = f"resubmit still names the old lineage: {', '.join(still)}"
        yield blocked("identity:old", text, Basis.RECORDED)
