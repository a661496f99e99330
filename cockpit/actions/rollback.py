"""A-4, rollback: an older complete checkpoint is chosen, the newer ones are rejected for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions import rollback_steps
from cockpit.actions.action import Step, unchanged
from cockpit.actions.at_rest import CHECKPOINT, listing, nothing_lives, relisted, remote_root
from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.actions.ground import Ground
from cockpit.actions.rejecting import Doomed, pack, why_not_movable
from cockpit.actions.saying import plural, safe, step_param, yes_param
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick
from cockpit.model.plan import Check, Draft, Plan, Request, Target
from cockpit.model.run import RunSpec
from cockpit.model.words import steps

PLACEHOLDER: Final = "{checkpoint}"
LOADS: Final = "C-17"


class Rollback:
    """Rejects every checkpoint that is newer than the one to go back to."""

    verb = "rollback"
    title = "roll back"
    exclusive = True
    launches = False

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return what would be rejected, and what the trainer would load afterwards."""
        to = step_param(request.params.get("to"), "to")
        move = yes_param(request.params.get("move"), "move")
        words = f"rollback {request.run} {to}"
        value = listing(ground)
        if isinstance(value, Check):
            return Draft(words=words, checks=(value,))
        newer = tuple(item for item in value.items if (_step(item) or -1) > to)
        chosen, about = _chosen(value, to)
        after = await _after(ground, value, newer, move=move)
        checks = (
            *nothing_lives(ground, self.verb),
            about,
            *_newer(newer, to),
            *_unplaced(value),
            *_movable(ground, newer, move=move),
            *_would_load(ground.spec, chosen, after, len(newer), move=move),
        )
        return Draft(
            words=words,
            checks=checks,
            checkpoint=chosen,
            trainer_would_load=None if isinstance(after, str) else after.trainer_would_load,
            loses=_loses(newer, to),
            targets=tuple(_target(item, move=move) for item in newer),
            facts={
                "to": str(to),
                "move": "yes" if move else "no",
                "reason": safe(request.params.get("reason") or f"rolled back to step {to:,}"),
                "rejected": pack(_doomed(item) for item in newer),
            },
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: reject (store, roots, logbook), move, verify, comment."""
        return rollback_steps.steps_of(plan)

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: the lists must be the very same."""
        return unchanged(shown, now)


def _step(item: Checkpoint) -> int | None:
    return item.name_step if item.step is None else item.step


def _chosen(value: CheckpointsValue, to: int) -> tuple[Pick | None, Check]:
    """Return the complete checkpoint of that step, or why it cannot be gone back to."""
    there = [item for item in value.items if _step(item) == to]
    good = [item for item in there if item.state is CheckpointState.COMPLETE and item.step == to]
    if good:
        best = max(good, key=lambda item: (item.permanent is not False, item.saved_at or 0.0))
        pick = Pick(path=best.path, step=to, why="chosen by the operator")
        text = f"step {steps(to)} is complete and of this lineage: {best.path}"
        return pick, passed(CHECKPOINT, text)
    if there:
        what = "; ".join(f"{item.state.value} ({item.note or item.path})" for item in there)
        return None, blocked(CHECKPOINT, f"step {steps(to)} cannot be gone back to: {what}")
    known = [item.step for item in value.items if item.state is CheckpointState.COMPLETE]
    named = ", ".join(steps(step) for step in known[-5:]) or "none"
    text = f"there is no checkpoint of step {steps(to)}; the newest complete ones: {named}"
    return None, blocked(CHECKPOINT, text)


def _newer(newer: Sequence[Checkpoint], to: int) -> Iterator[Check]:
    writing = [item for item in newer if item.state is CheckpointState.WRITING]
    if writing:
        yield blocked("rejected", f"{writing[0].path} is being written at this moment")
    elif not newer:
        yield blocked("rejected", f"nothing is newer than step {steps(to)}: nothing to reject")
    else:
        text = f"{plural(len(newer), 'newer checkpoint')} will be rejected for good"
        yield warned("rejected", text, value=str(len(newer)))


def _unplaced(value: CheckpointsValue) -> Iterator[Check]:
    for item in value.items:
        if _step(item) is None:
            yield warned("rejected", f"the step of {item.path} is unknown: it is left alone")


def _movable(ground: Ground, newer: Sequence[Checkpoint], *, move: bool) -> Iterator[Check]:
    if not move or not newer:
        return
    remote = remote_root(ground)
    trouble = (
        f"{remote} is not on this machine"
        if remote is not None
        else why_not_movable(_doomed(item) for item in newer)
    )
    if trouble is not None:
        yield blocked("move", f"they cannot be moved aside: {trouble}")
    else:
        text = f"{plural(len(newer), 'checkpoint')} will be moved to rejected-<date> in its root"
        yield passed("move", f"{text}; moving back undoes it", value=str(len(newer)))


async def _after(
    ground: Ground, value: CheckpointsValue, newer: Sequence[Checkpoint], *, move: bool
) -> CheckpointsValue | str:
    """Return the listing as it will be, or why that cannot be told."""
    if not move:
        return value
    return await relisted(ground, [item.path for item in newer])


def _would_load(
    run: RunSpec,
    chosen: Pick | None,
    after: CheckpointsValue | str,
    newer: int,
    *,
    move: bool,
) -> Iterator[Check]:
    """Yield whether the trainer, by its own rule, would load what is wanted (SPEC A-4)."""
    if chosen is None:
        return
    if names_checkpoint(run):
        wanted = f"it will be step {steps(chosen.step)}"
        yield passed(LOADS, f"the command names the checkpoint: {wanted}")
        return
    if isinstance(after, str):
        yield blocked(LOADS, f"it cannot be told what the trainer would load: {after}")
        return
    load = after.trainer_would_load
    if load is not None and load.step == chosen.step:
        yield passed(LOADS, f"the trainer would load {load.path} ({load.why})", value=load.path)
        return
    what = "it is not known what the trainer would load, or it would find nothing"
    if load is not None:
        what = f"the trainer would load step {steps(load.step)}, not {steps(chosen.step)}"
        what += f" ({load.why})"
    remedy = f"put {PLACEHOLDER} into resubmit"
    if not move:
        remedy = f"move the {plural(newer, 'rejected one')} aside (--move yes), or {remedy}"
    yield blocked(LOADS, f"{what}; {remedy}", value=None if load is None else load.path)


def names_checkpoint(run: RunSpec) -> bool:
    """Return whether the resubmit command tells the trainer which checkpoint to load."""
    command = run.resubmit or ()
    words = (command,) if isinstance(command, str) else command
    return any(PLACEHOLDER in word for word in words)


def _loses(newer: Sequence[Checkpoint], to: int) -> str | None:
    furthest = max((_step(item) or to for item in newer), default=to)
    if furthest == to:
        return None
    return f"{furthest - to:,} steps, from {steps(furthest)} back to {steps(to)}"


def _target(item: Checkpoint, *, move: bool) -> Target:
    what = "rejected already" if item.state is CheckpointState.REJECTED else "rejected lineage"
    why = f"{what}, {item.state.value}" if what == "rejected lineage" else what
    return Target(
        path=item.path, step=_step(item), size=item.size, why=f"{why}; moved aside" if move else why
    )


def _doomed(item: Checkpoint) -> Doomed:
    saved = item.touched_at if item.saved_at is None else max(item.saved_at, item.touched_at or 0)
    return Doomed(path=item.path, root=item.root, step=_step(item) or 0, saved_at=saved)
