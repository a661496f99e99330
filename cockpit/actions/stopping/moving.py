"""Moves rejected checkpoints out of the trainer's sight, wherever they lie.

A folder is renamed where folders can be; in a bucket only its marker is (SPEC A-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.core.action import Execution, SkipStep, Step, StepError, StepUnknownError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural, safe
from cockpit.actions.retention.at_rest import relisted
from cockpit.actions.roots.found import RunRoots
from cockpit.actions.roots.ways import Move, RootError, RootLostError
from cockpit.actions.stopping.rejecting import ToReject, unpack
from cockpit.model.observed import Checkpoint, CheckpointsValue
from cockpit.model.place import place_of
from cockpit.model.plan import Check
from cockpit.text.checks import blocked, passed, warned

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
        step=(item.name_step if item.step is None else item.step) or 0,
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
        return [blocked("mark", f"{remote} is on a system that nothing is rejected on")]
    troubles = []
    for root in dict.fromkeys(item.root for item in newer):
        access = await roots.of(root).access(place_of(root), delete=False)
        if access.trouble is not None:
            text = f"the root itself cannot say what is rejected: {access.trouble}"
            say = warned if context.spec.records.logbook is not None else blocked
            troubles.append(say("mark", f"{text}; the logbook does"))
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
            return [blocked(MOVE, f"they cannot be moved aside: {trouble}; {remedy}")]
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
    return passed(MOVE, text, value=str(moved + markers))


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
            await execution.note(moved="\n".join([*moved, _line(one)]))
            await ways.move(one)
        except RootLostError as error:
            text = f"cannot tell whether {each.path} was moved: {error}; {done}"
            raise StepUnknownError(safe(text)) from error
        except RootError as error:
            raise StepError(safe(f"{each.path} cannot be moved: {error}; {done}")) from error
        moved.append(_line(one))
    return f"{plural(len(moved), 'checkpoint')} moved aside"


def _line(one: Move) -> str:
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


def told(log: Step) -> Step:
    """Return the step that logs; what lies aside by then is looked at first."""

    async def run(execution: Execution) -> str | None:
        if execution.facts.get(MOVE) == "yes":
            there, unknown = await _moved(execution)
            execution.facts[THERE] = "\n".join(there)
            execution.facts[UNKNOWN] = "\n".join(unknown)
        return await log.run(execution)

    return replace(log, run=run)
