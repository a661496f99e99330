"""A-4, rollback: an older complete checkpoint is chosen, the newer ones are rejected for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.core.action import (
    Action,
    Execution,
    SkipStep,
    Step,
    StepError,
)
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural, safe, step_param, yes_param
from cockpit.actions.core.recording import MARKED, comment_step, event_name, intent_step, log_step
from cockpit.actions.launching.run_log_steps import status_step
from cockpit.actions.retention.at_rest import (
    CHECKPOINT,
    listing,
    nothing_lives,
    relisted,
)
from cockpit.actions.roots.found import RunRoots
from cockpit.actions.roots.ways import RootError, RootLostError
from cockpit.actions.stopping.moving import (
    PLACEHOLDER,
    THERE,
    UNKNOWN,
    all_moved,
    markable,
    movable,
    move_aside,
    sight_of,
    to_reject,
    told,
    way_out,
)
from cockpit.actions.stopping.rejecting import pack, rejections, unpack
from cockpit.model.lineage import listed_steps, names_checkpoint, newest_good, suspected, unlooked
from cockpit.model.lineage import named as called
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick, Whose
from cockpit.model.place import place_of
from cockpit.model.plan import Check, Draft, Plan, Request, Target
from cockpit.model.records import EventEntry, Rejected
from cockpit.model.run import RunSpec
from cockpit.model.wording import steps
from cockpit.records.issue.text import rolled_back
from cockpit.runtime.offload import offload
from cockpit.store.launches import Rejections
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.logbook_lines import rejection_lines

LOADS: Final = "C-17"
DEADLINE: Final = 15.0


class Rollback(Action):
    """Rejects every checkpoint that is newer than the one to go back to."""

    verb = "rollback"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be rejected, and what the trainer would load afterwards."""
        to = step_param(request.params.get("to"), "to")
        move = _moves(context.spec, request)
        words = f"rollback {request.run} {to}"
        value = listing(context)
        if isinstance(value, Check):
            return Draft(words=words, checks=(value,))
        newer = tuple(item for item in value.items if (_step(item) or -1) > to)
        chosen, about = _chosen(value, to)
        roots = RunRoots(context)
        after = await sight_of(context, roots, newer) if move else value
        mine = (_step(item) or to for item in newer if item.whose in (Whose.OWN, Whose.AGAIN))
        furthest = max(mine, default=to)
        loses = f"{furthest - to:,} steps, from {steps(furthest)} back to {steps(to)}"
        checks = (
            *nothing_lives(context, self.verb),
            about,
            *_suspicion(value, chosen, request.run),
            *_newer(value, newer, to),
            *await markable(context, roots, newer),
            *await movable(roots, newer, move=move),
            *_would_load(context.spec, chosen, after, len(newer), move=move),
        )
        return Draft(
            words=words,
            checks=checks,
            checkpoint=chosen,
            trainer_would_load=None if isinstance(after, str) else after.trainer_would_load,
            loses=None if furthest == to else loses,
            targets=tuple(_target(item, roots, move=move) for item in newer),
            facts={
                "to": str(to),
                "move": "yes" if move else "no",
                "reason": safe(request.params.get("reason") or f"rolled back to step {to:,}"),
                "rejected": pack(to_reject(item) for item in newer),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: mark (roots, store, logbook), move, verify, then what has come of it.

        Every store sees the rejection before anything moves; the outcome is written after it.
        """
        return (
            Step("mark", _mark, again=True),
            Step("reject", _reject, again=True),
            intent_step(_intent, f"{plan.run}: log rollback begun"),
            Step("move", move_aside, seen=all_moved),
            Step("verify", _verify, again=True),
            told(log_step(_entry, f"{plan.run}: log rollback", after_failure=True)),
            status_step(_status, f"{plan.run}: log rollback in the run log"),
            comment_step(event_name, _comment),
        )


def _moves(run: RunSpec, request: Request) -> bool:
    """Return whether to move the rejected ones aside; unless told, if nothing else would do."""
    given = request.params.get("move")
    return yes_param(given, "move") if given is not None else not names_checkpoint(run)


def _worth(item: Checkpoint) -> tuple[bool, bool, float]:
    return (item.good, item.permanent is not False, item.saved_at or 0.0)


def _step(item: Checkpoint) -> int | None:
    return item.name_step if item.step is None else item.step


def _chosen(value: CheckpointsValue, to: int) -> tuple[Pick | None, Check]:
    """Return the complete checkpoint of that step, or why it cannot be gone back to."""
    there = [item for item in value.items if _step(item) == to]
    whole = [item for item in there if item.state is CheckpointState.COMPLETE and item.step == to]
    good = [item for item in whole if item.whose in (Whose.OWN, Whose.AGAIN)]
    if whole and not good:
        text = f"step {steps(to)} is not, or not surely, this run's: {whole[-1].lineage}"
        return None, blocked(CHECKPOINT, text)
    if good:
        best = max(good, key=_worth)
        pick = Pick(path=best.path, step=to, why="chosen by the operator")
        text = f"step {steps(to)} is complete and of this lineage: {best.path}"
        return pick, passed(CHECKPOINT, text)
    if there:
        what = "; ".join(f"{item.state.value} ({item.note or item.path})" for item in there)
        return None, blocked(CHECKPOINT, f"step {steps(to)} cannot be rolled back to: {what}")
    known = [item for item in value.items if item.complete]
    named = ", ".join(called(item).removeprefix("step ") for item in known[-5:]) or "none"
    text = f"there is no checkpoint of step {steps(to)}; the newest complete ones: {named}"
    return None, blocked(CHECKPOINT, text)


def _suspicion(value: CheckpointsValue, chosen: Pick | None, run: str) -> Iterator[Check]:
    """Block a suspect one, and name the newest that is none; a person may let it pass (SPEC K)."""
    why = None if chosen is None else suspected(value, chosen)
    if chosen is None or why is None:
        return
    good = newest_good(item for item in value.items if item.step is not None)
    remedy = "every complete checkpoint is suspect"
    if good is not None:
        remedy = f"the newest that is not: step {steps(good.step)}"
        remedy += f" (cockpit rollback {run} --to {good.step})"
    text = f"step {steps(chosen.step)} is suspect: {why}; {remedy}"
    yield blocked("suspect", text, value=chosen.path, overridable=True)


def _newer(value: CheckpointsValue, newer: Sequence[Checkpoint], to: int) -> Iterator[Check]:
    writing = [item for item in newer if item.state is CheckpointState.WRITING]
    if writing:
        yield blocked("rejected", f"{writing[0].path} is being written")
    elif by_hand := [item for item in newer if item.files > 1 or item.unrecognised]:
        what = "is of no layout that is known here"
        if by_hand[0].files > 1:
            what = f"is one save of {by_hand[0].files} files"
        yield blocked("rejected", f"{by_hand[0].path} {what}: move it yourself")
    elif not newer:
        yield blocked("rejected", f"nothing is newer than step {steps(to)}: nothing to reject")
    else:
        text = f"{plural(len(newer), 'newer checkpoint')} will be rejected for good"
        others = [item for item in newer if item.whose in (Whose.OTHER, Whose.UNSURE)]
        text += f"; not, or not surely, this run's: {listed_steps(others)}" if others else ""
        yield warned("rejected", text, value=str(len(newer)))
    for item in value.items:
        if _step(item) is None:
            yield warned("rejected", f"the step of {item.path} is unknown, so it is left alone")


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
        yield blocked(LOADS, f"cannot tell what the trainer would load: {after}")
        return
    load = after.trainer_would_load
    if load is not None and load.step == chosen.step:
        yield passed(LOADS, f"the trainer would load {load.path} ({load.why})", value=load.path)
        return
    what = "the trainer would find nothing to load by itself, or its rule is unknown"
    if after.unjudged:
        what = f"{unlooked(after)}, so what the trainer would load is unknown"
    if load is not None:
        what = f"the trainer would load step {steps(load.step)}, not {steps(chosen.step)}"
        what += f" ({load.why})"
    remedy = f"put {PLACEHOLDER} into resubmit"
    if not move:
        remedy = f"move the {plural(newer, 'rejected one')} aside (--move yes), or {remedy}"
    yield blocked(LOADS, f"{what}; {remedy}", value=None if load is None else load.path)


def _target(item: Checkpoint, roots: RunRoots, *, move: bool) -> Target:
    what = "rejected already" if item.state is CheckpointState.REJECTED else "rejected lineage"
    state = "suspect" if item.complete and item.suspect else item.state.value
    why = f"{what}, {state}" if what == "rejected lineage" else what
    how = way_out(item, roots) if move else ""
    return Target(
        path=item.path, step=_step(item), size=item.size, why=f"{why}; {how}" if how else why
    )


def rejected_by(execution: Execution) -> tuple[Rejected, ...]:
    """Return the rejections of this very action, the same however often it is asked."""
    return rejections(
        unpack(execution.facts["rejected"]),
        execution.entry.begun_at,
        execution.entry.operator,
        execution.facts["reason"],
    )


async def _reject(execution: Execution) -> str:
    store, key = execution.context.parts.store, execution.context.key
    if store is None:
        raise StepError("no store to remember the rejection in; nothing was changed")
    rejected = rejected_by(execution)
    try:
        await offload(lambda: Rejections(store).add(key, rejected), deadline=DEADLINE)
    except (StoreError, TimeoutError) as error:
        raise StepError(f"the rejection cannot be remembered: {error}") from error
    return f"{plural(len(rejected), 'checkpoint')} rejected"


async def _mark(execution: Execution) -> str:
    """Write it under each root too: that is what is read where there is no run file."""
    by_root: dict[str, list[Rejected]] = {}
    for each, one in zip(unpack(execution.facts["rejected"]), rejected_by(execution), strict=True):
        by_root.setdefault(each.root, []).append(one)
    troubles = []
    roots = RunRoots(execution.context)
    for root, mine in by_root.items():
        try:
            await roots.of(root).mark(place_of(root), mine)
        except (RootError, RootLostError) as error:
            troubles.append(f"{root}: {error}")
    await execution.note(**{MARKED: "" if troubles else "yes"})
    if troubles:
        raise SkipStep("not marked in " + safe("; ".join(troubles)))
    return f"marked in {plural(len(by_root), 'root')}"


async def _verify(execution: Execution) -> str:
    """Look at the disk again: ours is the wanted one, and so is the trainer's."""
    to = int(execution.facts["to"])
    found = await relisted(execution.context)
    if isinstance(found, str):
        raise StepError(f"rejected, but the listing cannot be checked: {found}")
    ours, theirs = found.relaunch_from, found.trainer_would_load
    if ours is None or ours.step != to:
        took = "nothing" if ours is None else f"step {steps(ours.step)}"
        raise StepError(f"a relaunch would take {took}, not step {steps(to)}")
    planned = execution.plan.trainer_would_load
    if planned is not None and planned.step == to and (theirs is None or theirs.step != to):
        if theirs is None and found.unjudged:
            raise StepError(f"cannot check what the trainer would load: {unlooked(found)}")
        took = "nothing" if theirs is None else f"step {steps(theirs.step)}"
        raise StepError(f"the trainer would load {took}, not step {steps(to)}")
    return f"a relaunch takes step {steps(to)}: {ours.path}"


def _intent(execution: Execution) -> EventEntry:
    """Return what is public before anything moves: which checkpoints are rejected, and why."""
    to, chosen = int(execution.facts["to"]), execution.plan.checkpoint
    count = plural(len(execution.plan.targets), "newer checkpoint")
    goes = "moved aside in the root next" if execution.facts.get("move") == "yes" else "left there"
    return EventEntry(
        title=f"rollback to step {steps(to)} begun",
        at=execution.entry.begun_at,
        status=f"rollback ordered by {execution.entry.operator}: {count} rejected, {goes}",
        evidence=f"{count} rejected",
        said=rejection_lines(rejected_by(execution)),
        decision=execution.facts["reason"],
        next=f"go back to {chosen.path if chosen is not None else f'step {to}'}",
    )


def _entry(execution: Execution) -> EventEntry:
    to, chosen = int(execution.facts["to"]), execution.plan.checkpoint
    where = chosen.path if chosen is not None else f"step {to}"
    trouble = execution.trouble
    lost = execution.plan.loses or "no steps lost"
    return EventEntry(
        title=f"rollback to step {steps(to)}" + (": not finished" if trouble else ""),
        at=execution.entry.begun_at,
        status=trouble or f"rolled back by {execution.entry.operator}; {lost}",
        evidence=_what_is_there(execution),
        decision=execution.facts["reason"],
        next="check the checkpoints, then roll back again" if trouble
        else f"relaunch from {where}",
    )  # fmt: skip


def _what_is_there(execution: Execution) -> str:
    """Return what of the rejected ones was moved, as it was found when this was written."""
    every = unpack(execution.facts["rejected"])
    count = f"{plural(len(every), 'newer checkpoint')} rejected"
    if execution.facts.get("move") != "yes":
        return f"{count}, left in place"
    roots = RunRoots(execution.context)
    moving = sum(roots.of(each.path).moves(each) for each in every)
    moved, unknown = (
        list(filter(None, execution.facts.get(each, "").split("\n"))) for each in (THERE, UNKNOWN)
    )
    if len(moved) == moving:
        return "\n".join((f"{count}, moved aside in the root", *moved))
    doubt = f", {len(unknown)} unknown" if unknown else ""
    return "\n".join((f"{count}, {len(moved)} of {moving} moved aside{doubt}", *moved, *unknown))


def _comment(execution: Execution) -> str:
    to, chosen = int(execution.facts["to"]), execution.plan.checkpoint
    return rolled_back(
        execution.context.spec,
        to,
        chosen.path if chosen is not None else "unknown",
        rejected=[each.step for each in rejected_by(execution)],
        reason=execution.facts["reason"],
        by=execution.entry.operator,
    )


def _status(execution: Execution) -> str:
    to = steps(int(execution.facts["to"]))
    gone = plural(len(rejected_by(execution)), "newer checkpoint")
    return f"rolled back to step {to} by {execution.entry.operator}; {gone} rejected for good"
