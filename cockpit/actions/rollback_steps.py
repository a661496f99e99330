"""What a rollback does, in an order in which a crash anywhere leaves nothing unsafe (A-4)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from cockpit.actions.action import Doing, SkipStep, Step, StepError
from cockpit.actions.at_rest import relisted
from cockpit.actions.recording import comment_step, event_name, log_step
from cockpit.actions.rejecting import mark, move, place_aside, rejections, unpack
from cockpit.actions.run_log_steps import status_step
from cockpit.actions.saying import plural, safe
from cockpit.model.plan import Plan
from cockpit.model.records import EventEntry, Rejected
from cockpit.model.words import steps
from cockpit.records.issue_text import rolled_back
from cockpit.sources.offload import offload
from cockpit.store.outcomes import Rejections
from cockpit.store.store import StoreError
from cockpit.text.rejections import rejection_lines

DEADLINE: Final = 15.0


def steps_of(plan: Plan) -> Sequence[Step]:
    """Return the steps: what is recorded comes before what is moved."""
    return (
        Step("reject", _reject),
        Step("mark", _mark),
        log_step(_entry, f"{plan.run}: log rollback"),
        Step("move", _move),
        Step("verify", _verify),
        status_step(_status, f"{plan.run}: log rollback"),
        comment_step(event_name, _comment),
    )


def rejected_by(doing: Doing) -> tuple[Rejected, ...]:
    """Return the rejections of this very action, the same however often it is asked."""
    return rejections(
        unpack(doing.facts["rejected"]),
        doing.entry.begun_at,
        doing.entry.operator,
        doing.facts["reason"],
    )


async def _reject(doing: Doing) -> str:
    store, key = doing.ground.parts.store, doing.ground.key
    if store is None:
        raise StepError("there is no store to remember the rejection in; nothing was changed")
    rejected = rejected_by(doing)
    try:
        await offload(lambda: Rejections(store).add(key, rejected), deadline=DEADLINE)
    except (StoreError, TimeoutError) as error:
        raise StepError(f"the rejection cannot be remembered: {error}") from error
    return f"{plural(len(rejected), 'checkpoint')} rejected"


async def _mark(doing: Doing) -> str:
    """Write it under each root too: that is what is read where there is no run file."""
    by_root: dict[str, list[Rejected]] = {}
    for each, one in zip(unpack(doing.facts["rejected"]), rejected_by(doing), strict=True):
        by_root.setdefault(each.root, []).append(one)
    troubles = []
    for root, mine in by_root.items():
        try:
            await offload(functools.partial(mark, root, mine), deadline=DEADLINE)
        except (OSError, ValueError, TimeoutError) as error:
            troubles.append(f"{root}: {getattr(error, 'strerror', None) or error}")
    if troubles:
        raise SkipStep("not marked in " + safe("; ".join(troubles)))
    return f"marked in {plural(len(by_root), 'root')}"


async def _move(doing: Doing) -> str:
    if doing.facts.get("move") != "yes":
        raise SkipStep("nothing is moved")
    moved: list[str] = []
    doomed = unpack(doing.facts["rejected"])
    for each in doomed:
        try:
            target = await offload(place_aside, each, doing.entry.begun_at, deadline=DEADLINE)
            await doing.note(moved="\n".join([*moved, f"{each.path} -> {target}"]))
            await offload(move, each.path, target, deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or str(error)
            done = f"{len(moved)} of {len(doomed)} were moved"
            raise StepError(safe(f"{each.path} cannot be moved: {why}; {done}")) from error
        moved.append(f"{each.path} -> {target}")
    return f"{plural(len(moved), 'checkpoint')} moved aside"


async def _verify(doing: Doing) -> str:
    """Look at the disk again: ours is the wanted one, and so is the trainer's."""
    to = int(doing.facts["to"])
    found = await relisted(doing.ground)
    if isinstance(found, str):
        raise StepError(f"rejected, but the listing cannot be checked: {found}")
    ours, theirs = found.relaunch_from, found.trainer_would_load
    if ours is None or ours.step != to:
        took = "nothing" if ours is None else f"step {steps(ours.step)}"
        raise StepError(f"a relaunch would take {took}, not step {steps(to)}")
    planned = doing.plan.trainer_would_load
    if planned is not None and planned.step == to and (theirs is None or theirs.step != to):
        took = "nothing" if theirs is None else f"step {steps(theirs.step)}"
        raise StepError(f"the trainer would load {took}, not step {steps(to)}")
    return f"a relaunch takes step {steps(to)}: {ours.path}"


def _entry(doing: Doing) -> EventEntry:
    to = int(doing.facts["to"])
    chosen = doing.plan.checkpoint
    return EventEntry(
        title=f"rollback to step {steps(to)}",
        at=doing.entry.begun_at,
        status=f"rolled back by {doing.entry.operator}; {doing.plan.loses or 'no steps lost'}",
        evidence=f"{_evidence(doing)}\n{rejection_lines(rejected_by(doing))}",
        decision=doing.facts["reason"],
        next=f"relaunch from {chosen.path if chosen is not None else f'step {to}'}",
    )


def _evidence(doing: Doing) -> str:
    moved = doing.facts.get("move") == "yes"
    count = plural(len(doing.plan.targets), "newer checkpoint")
    return f"{count} rejected{', moved aside in the root' if moved else ', left in place'}"


def _comment(doing: Doing) -> str:
    to, chosen = int(doing.facts["to"]), doing.plan.checkpoint
    return rolled_back(
        doing.ground.spec,
        to,
        chosen.path if chosen is not None else "unknown",
        rejected=[each.step for each in rejected_by(doing)],
        reason=doing.facts["reason"],
        by=doing.entry.operator,
    )


def _status(doing: Doing) -> str:
    to = steps(int(doing.facts["to"]))
    gone = plural(len(rejected_by(doing)), "newer checkpoint")
    return f"rolled back to step {to} by {doing.entry.operator}; {gone} rejected for good"
