"""A-4, rollback: an older complete checkpoint is chosen, the newer ones are rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.checks.lineages import worth
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    looking_first,
    plural,
    safe,
    step_param,
    yes_param,
)
from cockpit.actions.core.recording import (
    MARKED,
    comment_step,
    event_name,
    intent_step,
    log_step,
    status_step,
    stored,
)
from cockpit.actions.retention.at_rest import RunRoots, listing, nothing_lives, relisted
from cockpit.actions.retention.ways import (
    Move,
    RootError,
    RootLostError,
    ToReject,
    pack,
    rejections,
    unpack,
)
from cockpit.model import check_rows as rows
from cockpit.model.lineage import listed_steps, names_checkpoint, newest_good, suspected, unlooked
from cockpit.model.lineage import named as called
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick, Whose
from cockpit.model.place import place_of
from cockpit.model.plan import Check, Draft, Plan, Request, Target
from cockpit.model.records import EventText, Rejected
from cockpit.model.run import RunSpec
from cockpit.model.wording import steps
from cockpit.records.issue.service import Markdown, code, comment, person, prose, steps_of
from cockpit.store.launches import Rejections
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.logbook_lines import rejection_lines

PLACEHOLDER: Final = "{checkpoint}"
MOVE: Final = "move"
"""The fact that says whether anything is to be moved."""
THERE: Final = "lies-aside"
"""The fact that says which of the moved ones were seen to lie aside, when it was logged."""
UNKNOWN: Final = "lies-unknown"
"""The fact that says of which it could not be seen then."""
MARKER: Final = "its marker is moved aside"
FOLDER: Final = "moved aside"


def to_reject(item: Checkpoint) -> ToReject:
    """Return what is kept of a checkpoint that is to be rejected."""
    saved = item.touched_at if item.saved_at is None else max(item.saved_at, item.touched_at or 0)
    return ToReject(
        path=item.path,
        root=item.root,
        step=item.any_step or 0,
        saved_at=saved,
        marker=item.marker,
        single=item.marker == item.path.rpartition("/")[2],
    )


async def sight_of(
    context: ActionContext, roots: RunRoots, newer: Sequence[Checkpoint]
) -> CheckpointsValue | str:
    """Return the listing as it would be with the newer ones out of the trainer's sight."""
    gone, unmarked = [], {}
    for item in newer:
        try:
            names = roots.of(item.path).unmarked(to_reject(item), context.now)
            moves = roots.of(item.path).moves(to_reject(item))
        except RootError as error:
            return safe(error)
        if names is not None:
            unmarked[item.path] = names
        elif moves:
            gone.append(item.path)
    return await relisted(context, gone, unmarked)


async def markable(
    context: ActionContext, roots: RunRoots, newer: Sequence[Checkpoint]
) -> list[Check]:
    """Return why a root does not take the file that says what is rejected, tried by doing."""
    remote = roots.unknown
    if remote is not None:
        return [blocked(rows.MARKABLE, f"{remote} is on a system that nothing is rejected on")]
    troubles = []
    for root in dict.fromkeys(item.root for item in newer):
        access = await roots.of(root).access(place_of(root), delete=False)
        if access.trouble is not None:
            text = f"the root itself cannot say what is rejected: {access.trouble}"
            say = warned if context.spec.records.logbook is not None else blocked
            troubles.append(say(rows.MARKABLE, f"{text}; the logbook does"))
    return troubles


async def movable(roots: RunRoots, newer: Sequence[Checkpoint], *, move: bool) -> list[Check]:
    """Return whether they can be moved aside, and how."""
    if not move or not newer or roots.unknown is not None:
        return []
    for root in dict.fromkeys(item.root for item in newer):
        mine = [to_reject(item) for item in newer if item.root == root]
        try:
            trouble = await roots.of(root).why_not_movable(mine)
        except (RootError, RootLostError) as error:
            trouble = str(error)
        if trouble is not None:
            remedy = f"name the checkpoint in the command ({PLACEHOLDER} in resubmit)"
            return [blocked(rows.MOVED, f"they cannot be moved aside: {trouble}; {remedy}")]
    return [_how([way_out(item, roots) for item in newer])]


def _how(ways: Sequence[str]) -> Check:
    """Say what is moved in which way, and that it can be undone."""
    moved, markers = ways.count(FOLDER), ways.count(MARKER)
    parts = []
    if moved:
        parts.append(f"{plural(moved, 'checkpoint')} will be moved to rejected-<date> in its root")
    if markers:
        text = f"the marker of {plural(markers, 'checkpoint')} will be renamed"
        parts.append(f"{text} (<marker>.rejected-<date>), so that the trainer skips it")
    if len(ways) > moved + markers:
        left = plural(len(ways) - moved - markers, "checkpoint")
        parts.append(f"{left} without a marker stays: no trainer loads it")
    text = f"{'; '.join(parts)}; moving back undoes it"
    return passed(rows.MOVED, text, value=str(moved + markers))


def way_out(item: Checkpoint, roots: RunRoots) -> str:
    """Return what a move does to one, in a plan's words; empty for one that stays."""
    each = to_reject(item)
    try:
        ways = roots.of(item.path)
    except RootError:
        return ""
    if not ways.moves(each):
        return ""
    return FOLDER if ways.unmarked(each, 0.0) is None else MARKER


async def move_aside(execution: Execution) -> str:
    """Move one after another, each written into the journal before."""
    if execution.facts.get(MOVE) != "yes":
        raise SkipStep("nothing is moved")
    moved: list[str] = []
    roots = RunRoots(execution.context)
    moving = [e for e in unpack(execution.facts["rejected"]) if roots.of(e.path).moves(e)]
    for each in moving:
        done = f"{len(moved)} of {len(moving)} were moved"
        try:
            ways = roots.of(each.path)
            one = await ways.aside(each, execution.entry.begun_at)
            await execution.note(moved="\n".join([*moved, _move_line(one)]))
            await ways.move(one)
        except RootLostError as error:
            text = f"cannot tell whether {each.path} was moved: {error}; {done}"
            raise StepUnknownError(safe(text)) from error
        except RootError as error:
            raise StepError(safe(f"{each.path} cannot be moved: {error}; {done}")) from error
        moved.append(_move_line(one))
    return f"{plural(len(moved), 'checkpoint')} moved aside"


def _move_line(one: Move) -> str:
    return f"{one.was} -> {one.target}"


async def all_moved(execution: Execution) -> str | None:
    """Return that every one lies aside, if a move that was cut short has come so far."""
    roots = RunRoots(execution.context)
    moving = [e for e in unpack(execution.facts["rejected"]) if roots.of(e.path).moves(e)]
    done, _ = await _moved(execution)
    if len(done) < len(moving):
        return None
    return f"{plural(len(moving), 'checkpoint')} moved aside"


async def _moved(execution: Execution) -> tuple[list[str], list[str]]:
    """Return what was noted to be moved and lies aside, and of what it cannot be seen."""
    roots, found, unknown = RunRoots(execution.context), [], []
    for line in filter(None, execution.facts.get("moved", "").split("\n")):
        was, sign, target = line.partition(" -> ")
        try:
            if sign and await roots.of(target).has_moved(Move(was, target)):
                found.append(line)
        except (RootError, RootLostError):
            unknown.append(line)
    return found, unknown


async def _see_what_lies_aside(execution: Execution) -> None:
    if execution.facts.get(MOVE) == "yes":
        there, unknown = await _moved(execution)
        execution.facts[THERE] = "\n".join(there)
        execution.facts[UNKNOWN] = "\n".join(unknown)


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
        newer = tuple(item for item in value.items if (item.any_step or -1) > to)
        chosen, about = _chosen(value, to)
        roots = RunRoots(context)
        after = await sight_of(context, roots, newer) if move else value
        mine = (item.any_step or to for item in newer if item.whose in (Whose.OWN, Whose.AGAIN))
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
            looking_first(
                log_step(_entry, f"{plan.run}: log rollback", after_failure=True),
                _see_what_lies_aside,
            ),
            status_step(_status, f"{plan.run}: log rollback in the run log"),
            comment_step(event_name, _comment),
        )


def _moves(run: RunSpec, request: Request) -> bool:
    """Return whether to move the rejected ones aside; unless told, if nothing else would do."""
    given = request.params.get("move")
    return yes_param(given, "move") if given is not None else not names_checkpoint(run)


def _chosen(value: CheckpointsValue, to: int) -> tuple[Pick | None, Check]:
    """Return the complete checkpoint of that step, or why it cannot be gone back to."""
    there = [item for item in value.items if item.any_step == to]
    whole = [item for item in there if item.state is CheckpointState.COMPLETE and item.step == to]
    good = [item for item in whole if item.whose in (Whose.OWN, Whose.AGAIN)]
    if whole and not good:
        text = f"step {steps(to)} is not, or not surely, this run's: {whole[-1].lineage}"
        return None, blocked(rows.ROLLBACK_TO, text)
    if good:
        best = max(good, key=worth)
        pick = Pick(path=best.path, step=to, why="chosen by the operator")
        text = f"step {steps(to)} is complete and of this lineage: {best.path}"
        return pick, passed(rows.ROLLBACK_TO, text)
    if there:
        what = "; ".join(f"{item.state.value} ({item.note or item.path})" for item in there)
        return None, blocked(rows.ROLLBACK_TO, f"step {steps(to)} cannot be rolled back to: {what}")
    known = [item for item in value.items if item.complete]
    named = ", ".join(called(item).removeprefix("step ") for item in known[-5:]) or "none"
    text = f"there is no checkpoint of step {steps(to)}; the newest complete ones: {named}"
    return None, blocked(rows.ROLLBACK_TO, text)


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
    yield finding(rows.SUSPECT, text, value=chosen.path)


def _newer(value: CheckpointsValue, newer: Sequence[Checkpoint], to: int) -> Iterator[Check]:
    writing = [item for item in newer if item.state is CheckpointState.WRITING]
    if writing:
        yield blocked(rows.REJECTED, f"{writing[0].path} is being written")
    elif by_hand := [item for item in newer if item.files > 1 or item.unrecognised]:
        what = "is of no layout that is known here"
        if by_hand[0].files > 1:
            what = f"is one save of {by_hand[0].files} files"
        yield blocked(rows.REJECTED, f"{by_hand[0].path} {what}: move it yourself")
    elif not newer:
        yield blocked(rows.REJECTED, f"nothing is newer than step {steps(to)}: nothing to reject")
    else:
        text = f"{plural(len(newer), 'newer checkpoint')} will be rejected for good"
        others = [item for item in newer if item.whose in (Whose.OTHER, Whose.UNSURE)]
        text += f"; not, or not surely, this run's: {listed_steps(others)}" if others else ""
        yield warned(rows.REJECTED, text, value=str(len(newer)))
    for item in value.items:
        if item.any_step is None:
            yield warned(rows.REJECTED, f"the step of {item.path} is unknown, so it is left alone")


def _would_load(
    run: RunSpec, chosen: Pick | None, after: CheckpointsValue | str, newer: int, *, move: bool
) -> Iterator[Check]:
    """Yield whether the trainer, by its own rule, would load what is wanted (SPEC A-4)."""
    if chosen is None:
        return
    if names_checkpoint(run):
        wanted = f"it will be step {steps(chosen.step)}"
        yield passed(rows.TRAINER_LOADS, f"the command names the checkpoint: {wanted}")
        return
    if isinstance(after, str):
        yield blocked(rows.TRAINER_LOADS, f"cannot tell what the trainer would load: {after}")
        return
    load = after.trainer_would_load
    if load is not None and load.step == chosen.step:
        text = f"the trainer would load {load.path} ({load.why})"
        yield passed(rows.TRAINER_LOADS, text, value=load.path)
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
    text = f"{what}; {remedy}"
    yield blocked(rows.TRAINER_LOADS, text, value=None if load is None else load.path)


def _target(item: Checkpoint, roots: RunRoots, *, move: bool) -> Target:
    what = "rejected already" if item.state is CheckpointState.REJECTED else "rejected lineage"
    state = "suspect" if item.complete and item.suspect else item.state.value
    why = f"{what}, {state}" if what == "rejected lineage" else what
    how = way_out(item, roots) if move else ""
    return Target(
        path=item.path, step=item.any_step, size=item.size, why=f"{why}; {how}" if how else why
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
    key, rejected = execution.context.key, rejected_by(execution)
    await stored(execution, lambda store: Rejections(store).add(key, rejected), "the rejection")
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


def _intent(execution: Execution) -> EventText:
    """Return what is public before anything moves: which checkpoints are rejected, and why."""
    to, chosen = int(execution.facts["to"]), execution.plan.checkpoint
    count = plural(len(execution.plan.targets), "newer checkpoint")
    goes = "moved aside in the root next" if execution.facts.get("move") == "yes" else "left there"
    return EventText(
        title=f"rollback to step {steps(to)} begun",
        status=f"rollback ordered by {execution.entry.operator}: {count} rejected, {goes}",
        evidence=f"{count} rejected",
        said=rejection_lines(rejected_by(execution)),
        decision=execution.facts["reason"],
        next=f"go back to {chosen.path if chosen is not None else f'step {to}'}",
    )


def _entry(execution: Execution) -> EventText:
    to, chosen = int(execution.facts["to"]), execution.plan.checkpoint
    where = chosen.path if chosen is not None else f"step {to}"
    trouble = execution.trouble
    lost = execution.plan.loses or "no steps lost"
    return EventText(
        title=f"rollback to step {steps(to)}" + (": not finished" if trouble else ""),
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
    path = code(chosen.path if chosen is not None else "unknown")
    rows_ = (
        ("Goes on from", Markdown(f"{path}, step {steps(to)}")),
        ("Rejected for good", steps_of([each.step for each in rejected_by(execution)])),
        ("Reason", prose(execution.facts["reason"])),
        ("Decided by", person(execution.entry.operator)),
    )
    return comment(execution.context.spec, f"rolled back to step {steps(to)}", rows_)


def _status(execution: Execution) -> str:
    to = steps(int(execution.facts["to"]))
    gone = plural(len(rejected_by(execution)), "newer checkpoint")
    return f"rolled back to step {to} by {execution.entry.operator}; {gone} rejected for good"
