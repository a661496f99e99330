"""A-6: which checkpoints a clean-up may delete, and why each of the others stays. Pure.

What is not known is kept, and so is what is not surely this run's. Suspect ones are no cover: they
are counted apart, so that none of them takes the place of a good one. Always kept are the newest
ones, the final one, what a launch resumed from, recovery sources, milestones, what the trainer
would load, and what is being written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.observed import Checkpoint, CheckpointState
from cockpit.model.run import RunSpec

KEEP = 10
"""How many of the newest complete ones stay unless the run file says otherwise (HERO)."""
DEFAULT_INTERVAL = 3600.0
"""Seconds after which an unfinished one counts as left behind where no interval is known."""


class Policy(Frozen):
    """What the run file and the request ask for; ``keep`` is never below the rollback depth."""

    keep: int
    final_step: int | None = None
    permanent_every: int | None = None
    protect: tuple[int, ...] = ()
    save_every: Seconds = DEFAULT_INTERVAL


class Needed(Frozen):
    """What else is known of checkpoints; ``sources`` says by path what was begun from it."""

    now: Instant
    trainer_would_load: str | None = None
    sources: dict[str, str] = Field(default_factory=dict)


class Decision(Frozen):
    """One checkpoint, whether it may be deleted, and why, or why not."""

    item: Checkpoint
    delete: bool
    why: str


def policy_of(run: RunSpec, keep: int | None = None) -> Policy:
    """Return the run's policy; ``keep`` replaces its own, down to the rollback depth."""
    spec = run.checkpoints
    if spec is None:
        return Policy(keep=max(1, KEEP if keep is None else keep), final_step=run.final_step)
    own = KEEP if spec.keep is None else spec.keep
    return Policy(
        keep=max(own if keep is None else keep, depth_of(run)),
        final_step=run.final_step,
        permanent_every=spec.permanent_every,
        protect=spec.protect,
        save_every=spec.save_every or DEFAULT_INTERVAL,
    )


def depth_of(run: RunSpec) -> int:
    """Return how many complete checkpoints a rollback must be able to choose from."""
    depth = run.checkpoints.rollback_depth if run.checkpoints is not None else None
    return max(1, 1 if depth is None else depth)


def decide(items: Sequence[Checkpoint], policy: Policy, needed: Needed) -> tuple[Decision, ...]:
    """Return the decision about each checkpoint, in the order given."""
    own = [item for item in items if item.complete and item.own]
    good = _newest([item for item in own if item.good], policy)
    suspect = _newest([item for item in own if not item.good], policy)
    return tuple(
        _decision(item, suspect if item.complete and not item.good else good, policy, needed)
        for item in items
    )


def _newest(items: Sequence[Checkpoint], policy: Policy) -> tuple[int, ...]:
    steps = {item.step for item in items if item.step is not None}  # copies of a step count once
    return tuple(sorted(steps, reverse=True)[: max(1, policy.keep)])


def _decision(
    item: Checkpoint, newest: tuple[int, ...], policy: Policy, needed: Needed
) -> Decision:
    kept = [*_always(item, needed)]
    if item.state is CheckpointState.COMPLETE:
        kept += _complete(item, newest, policy)
    elif item.state is CheckpointState.INCOMPLETE and not item.half_deleted:
        kept += _unfinished(item, newest, policy, needed.now)
    if kept:
        return Decision(item=item, delete=False, why="; ".join(dict.fromkeys(kept)))
    return Decision(item=item, delete=True, why=_reason(item, newest))


def _always(item: Checkpoint, needed: Needed) -> Iterator[str]:
    if item.state is CheckpointState.WRITING:
        yield "being written"
    if item.lineage is not None:
        yield f"not, or not surely, this run's: {item.lineage}"
    if item.files > 1:
        yield f"one save of {item.files} files beside each other: delete it by hand"
    if item.state is CheckpointState.UNKNOWN:
        yield "its state is unknown" + (f": {item.note}" if item.note else "")
    yield from item.protected
    if item.path in needed.sources:
        yield needed.sources[item.path]
    if item.path == needed.trainer_would_load:
        yield "the trainer would load it"


def _complete(item: Checkpoint, newest: tuple[int, ...], policy: Policy) -> Iterator[str]:
    step = item.step
    if step is None:
        yield "its step is unknown"
        return
    if step in newest:
        kind = "" if item.good else " that are suspect"
        yield f"one of the newest {len(newest)}{kind}"
    if policy.final_step is not None and step in (policy.final_step - 1, policy.final_step):
        yield "final"
    if step in policy.protect:
        yield "protected in the run file"
    every = policy.permanent_every
    # A permanent one of the agreed rhythm; trainers count from 0 or from 1 (SPEC K).
    if every and item.permanent is not False and 0 in (step % every, (step + 1) % every):
        yield f"milestone: every {every:,} steps"


def _unfinished(
    item: Checkpoint, newest: tuple[int, ...], policy: Policy, now: float
) -> Iterator[str]:
    touched = item.touched_at
    if touched is None:
        yield "unfinished, and its age is unknown"
    elif now - touched <= policy.save_every:
        yield "unfinished, but changed within a save interval"
    elif not newest:
        yield "there is no complete one: a person may want to look at it"


def _reason(item: Checkpoint, newest: tuple[int, ...]) -> str:
    if item.state is CheckpointState.REJECTED:
        return item.note or "of a rejected lineage"
    if item.half_deleted:
        return "left half deleted by an earlier clean-up"
    if item.state is CheckpointState.INCOMPLETE:
        return "torn: " + (item.note or "never finished")
    kind = "" if item.good else " that are suspect"
    return f"older than the newest {len(newest)}{kind}, which begin at step {newest[-1]:,}"
