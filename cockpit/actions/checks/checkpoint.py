"""C-17, the checkpoint: the newest complete one of this lineage, wherever it lies."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Sequence
from typing import Final

from cockpit.actions.core.action import ActionContext, plural, safe
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.clock import FILE_SKEW, Clock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.lineage import (
    LIGHTNING,
    flags_of,
    listed_steps,
    newest_good,
    newest_of,
    suspected,
    unlooked,
    would_resume,
)
from cockpit.model.lineage import named as called
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Pick, Whose
from cockpit.model.place import Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import masked, words_of
from cockpit.rules.lineage.paths import StatedOutput, path_in_job, seen_outside, shared_folders
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.mounts import is_folder, open_regular
from cockpit.sources.checkpoints.contents import (
    Entry,
    Level,
    ListingError,
    Piece,
    Tree,
    Walk,
    join,
    latest,
)
from cockpit.sources.checkpoints.layouts import BY_COMMAND, is_named, is_sure
from cockpit.sources.checkpoints.source import list_anywhere, list_checkpoints, tree_at
from cockpit.text.announced import LAST, ckpt_path_of
from cockpit.text.checks import blocked, finding, passed, warned

BIGGEST: Final = 1 << 20
_NOT_WHOLE: Final = (CheckpointState.INCOMPLETE, CheckpointState.WRITING)
_STEP: Final = re.compile(r"(?:^|\D)(\d{1,12})$")


def resume_from(context: ActionContext, *, named: bool) -> list[Check]:
    """Check what a relaunch would resume from; ``named``: the command says ``{checkpoint}``."""
    facet, run = context.report.facets.checkpoints, context.spec
    value = facet.value
    if not facet.configured:
        text = "no checkpoints in cockpit.toml: it would start from scratch"
        return [blocked(rows.CHECKPOINT, text, Basis.RECORDED)]
    if value is None or facet.error is not None:
        return [_unlisted(facet.error, run)]
    pick = would_resume(value, by_name=named)
    if pick is None:
        return [_nothing_whole(value, run)]
    # Judge the pick, but for one of which it is said already that the trainer takes it
    theirs = value.trainer_would_load
    said = not named and theirs is not None and suspected(value, theirs) is not None
    return [
        *_suspicion(pick, value, run),
        *([] if said else [_picked(pick, value, run, named=named)]),
        *_judged_all(pick, value),
        *([] if named else _led_astray(pick, value)),
        *_of_this_run(context, pick),
    ]


def _unlisted(error: Problem | None, run: RunSpec) -> Check:
    """Say why nothing is known; a root that is not there may only mean that nothing was saved."""
    text = f"checkpoints unknown: {'not listed yet' if error is None else error.message}"
    if error is not None and error.kind is ErrorKind.NOT_FOUND:
        text += f"; if it never saved one, from scratch is a launch (cockpit launch {run.name})"
    return blocked(rows.CHECKPOINT, text)


def _nothing_whole(value: CheckpointsValue, run: RunSpec) -> Check:
    """Say that nothing can be resumed from, and what lies there all the same."""
    there = ", ".join(f"{called(item)} {item.state.value}" for item in value.items[-3:])
    if value.unjudged:
        whole = any(item.complete for item in value.items)
        why = "the newest may lie there" if whole else "none of the others is complete"
        return finding(rows.NOTHING_WHOLE, f"{unlooked(value)}, and {why}: plan again")
    if value.unrecognised and not any(item.complete for item in value.items):
        text = "; ".join(value.notes) or "saves of an unknown layout"
        text += "; name it in cockpit.toml ([run.checkpoints] layout, or custom)"
        return finding(rows.NOTHING_WHOLE, text, value=value.unrecognised[-1].path)
    others = [item for item in value.items if item.complete and not item.own]
    if others:
        text = f"no complete checkpoint is surely this run's: {others[-1].lineage}"
        text = (
            f"{text} ({listed_steps(others)}); move what is another run's, or name this run's own"
        )
        text += " in cockpit.toml ([run.checkpoints] layout, custom)"
        return finding(rows.NOTHING_WHOLE, text)
    notes = next((f"; {item.note}" for item in reversed(value.items) if item.note), "")
    text = f"no checkpoint is known to be complete ({there}{notes})" if there else ""
    unknown = [item for item in value.items if item.state is CheckpointState.UNKNOWN]
    if unknown:  # it may be whole: nothing is said of beginning anew
        text = f"{text}: find out about {called(unknown[-1])}"
        return finding(rows.NOTHING_WHOLE, text, value=unknown[-1].path)
    text = text or "no complete checkpoint"
    text += f"; from scratch is a launch, with {run.dri or 'the DRI'}'s approval"
    return finding(rows.NOTHING_WHOLE, f"{text} (cockpit launch {run.name})")


def _suspicion(pick: Pick, value: CheckpointsValue, run: RunSpec) -> list[Check]:
    """Block what would be loaded if it is suspect: a person may let it pass, by name (SPEC K)."""
    why, good = suspected(value, pick), value.relaunch_from
    if why is None:
        return []
    theirs = value.trainer_would_load
    who = "the trainer would load" if theirs and theirs.path == pick.path else "it may load"
    text = f"{who} {called(pick)}, which is suspect: {why};"
    if good is None:
        text += " every complete checkpoint is suspect, so there is none to roll back to"
    elif good.step is None:
        text += f" name {called(good)} ({good.path}) in the command with {{checkpoint}}"
    else:
        text += f" roll back first (cockpit rollback {run.name} --to {good.step} --move yes),"
        text += " or name it in the command with {checkpoint}"
    return [finding(rows.SUSPECT, text, value=pick.path)]


def _picked(pick: Pick, value: CheckpointsValue, run: RunSpec, *, named: bool) -> Check:
    what, theirs = called(pick), value.trainer_would_load
    if named:
        text = f"the command names {what} ({pick.why}): {pick.path}"
        return passed(rows.CHECKPOINT, text, value=pick.path)
    fixed = _fixed_save(run)
    if fixed is not None and _name(fixed) != _name(pick.path):
        text = f"{what} ({pick.why}) is wanted, but the command always resumes from"
        text += f" {masked([fixed])[0]}; write {{checkpoint}} in its place"
        return blocked(rows.CHECKPOINT, text, value=pick.path)
    if fixed is not None and _is_elsewhere(fixed, pick, run):
        text = f"{what} ({pick.why}) is wanted; the command always resumes from"
        text += f" {masked([fixed])[0]}, and whether that is {pick.path} is not known;"
        text += " write {checkpoint} in its place"
        return warned(rows.CHECKPOINT, text, Basis.INFERRED, pick.path)
    if theirs is None:
        return _no_rule(pick, value, run)
    if theirs.path == pick.path and (newer := _left_out(pick, value)) is not None:
        again = "" if newer.step is None or pick.step is None else f" {newer.step - pick.step:,}"
        text = f"loads {what} ({theirs.why}); {called(newer)} is complete and newer:{again} steps"
        text += " are trained again; {checkpoint} in the command takes the newest"
        return warned(rows.CHECKPOINT, text, value=pick.path)
    if theirs.path == pick.path:
        text = f"loads {what} ({pick.why}); the trainer agrees"
        return passed(rows.CHECKPOINT, text, value=pick.path)
    state = None if (item := value.at(theirs.path)) is None else item.state
    how = _how(value.at(theirs.path))
    text = f"{what} ({pick.why}) is wanted, but the trainer would load"
    text += f" {called(theirs)} ({how}; {theirs.why}): {theirs.path};"
    later = (theirs.step or 0) > (pick.step or 0)
    if pick.step is not None and (state is CheckpointState.REJECTED or later):
        text += f" move it aside (cockpit rollback {run.name} --to {pick.step} --move yes), or"
    text = f"{text} name it in the command with {{checkpoint}}"
    return blocked(rows.CHECKPOINT, text, value=theirs.path)


def _left_out(pick: Pick, value: CheckpointsValue) -> Checkpoint | None:
    """Return the newest one of the run's own that the trainer's rule passes over, if there is."""
    newest = newest_good(value.items)
    older = newest is not None and (newest.step or 0) > (pick.step or 0)
    return newest if newest is not None and older and newest.path != pick.path else None


def _how(item: Checkpoint | None) -> str:
    """Return what is known of one that the trainer would load: its state, and whose it is."""
    if item is None:
        return "unknown"
    return item.state.value if item.lineage is None else f"{item.state.value}, {item.lineage}"


def _no_rule(pick: Pick, value: CheckpointsValue, run: RunSpec) -> Check:
    """Judge a layout whose trainer loads what its command tells it to, as far as that is said."""
    item = value.at(pick.path)
    configured = "auto" if run.checkpoints is None else run.checkpoints.layout
    layout = (item.layout if item is not None else "") or configured
    what, flag = called(pick), resume_flag(run)
    if layout not in BY_COMMAND and value.unjudged:
        text = f"{what} is wanted; what the trainer would load is not known yet:"
        text += f" {plural(value.unjudged, 'checkpoint')} not read in time; try again"
        return blocked(rows.CHECKPOINT, text, value=pick.path)
    if layout not in BY_COMMAND:
        text = f"{what} is wanted, but the trainer would start at 0:"
        text = f"{text} name it in the command with {{checkpoint}}"
        return blocked(rows.CHECKPOINT, text, value=pick.path)
    if layout == LIGHTNING and ckpt_path_of(run.resubmit) == LAST and not value.unjudged:
        text = f"{what} is wanted, but ckpt_path=last finds no last*.ckpt that is there:"
        text += " Lightning would start at step 0; name it in the command with {checkpoint}"
        return blocked(rows.CHECKPOINT, text, value=pick.path)
    if flag is not None:
        text = f"{what} ({pick.why}) is wanted; the command makes the trainer resume ({flag}),"
        text += " but what it loads is known only at its first step"
        return passed(rows.CHECKPOINT, text, Basis.INFERRED, pick.path)
    if item is not None and item.layout == "nanogpt":
        text = "neither {checkpoint} nor a resume flag (--init_from=resume) in the command: a"
        text += f" trainer of this kind starts at step 0 and overwrites {pick.path}"
        return finding(rows.NO_RESUME_FLAG, text, value=pick.path)
    text = f"{what} is wanted; what a trainer of {layout} loads by itself is not known:"
    return warned(rows.CHECKPOINT, f"{text} check its first step", Basis.INFERRED, pick.path)


def resume_flag(run: RunSpec) -> str | None:
    """Return the word of the command that tells the trainer itself to resume, if one does."""
    try:
        words = words_of(run.resubmit or ())
    except CommandError:
        return None
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        shown = word
        if _INIT.fullmatch(word):
            shown = f"{word} {after}"
        if _RESUMES.fullmatch(shown) and not _NO.fullmatch(after if "=" not in shown else ""):
            return masked([shown])[0]
    return None


def _fixed_save(run: RunSpec) -> str | None:
    """Return the save that the command resumes from whatever there is, as the command spells it."""
    try:
        words = words_of(run.resubmit or ())
    except CommandError:
        return None
    for flag, value in flags_of(words).items():
        name = _name(value)
        numbered = any(letter.isdigit() for letter in name) and not name.startswith("latest")
        if _RESUMES_FROM.fullmatch(flag) and numbered and (is_named(name) or is_sure(name)):
            return value
    return None


def _name(path: str) -> str:
    return posixpath.basename(path.rstrip("/"))


def _is_elsewhere(fixed: str, pick: Pick, run: RunSpec) -> bool:
    """Tell whether a save of the pick's name may lie in another folder than the pick.

    A container and a link spell one folder in another way, so nobody can be sure.
    """
    shared = shared_folders(words_of(run.resubmit or ()))
    stated = seen_outside(StatedOutput("the command", fixed), shared)
    if stated is None or not stated.path.startswith("/"):
        return False
    places = (place_of(stated.path), place_of(pick.path))
    one, other = (path_in_job(each, run, {}) for each in places)
    return one != other


_RESUMES_FROM: Final = re.compile(
    r"[-+]*(?:[\w-]*[.])?(?:resume(?:[-_]from)?(?:[-_](?:checkpoint|ckpt|path))?|ckpt[-_]path)",
    re.I,
)
"""Flags whose value is what a trainer resumes from."""
_INIT: Final = re.compile(r"--?(?:init[-_]from|ckpt[-_]path|load(?:[-_]\w+)?)")
"""Flags that say what to load in the word behind them."""
_RESUMES: Final = re.compile(
    r"(?!.*wandb)(?!\W*(?:no|not|dont|never|skip|disable|without)[-_])"
    r"(?:(?=[-+]|.*=)(?:--?|\+)?(?:[\w.-]*[._-])?)?(?:"
    r"(?:auto[-_]?)?(?:resume|restore|continue)(?:[-_]\w+)*"
    r"(?:=(?!(?:false|no|none|never|null|0|off|''|\"\")$).+)?"
    r"|init[-_]from[= ]resume|ckpt[-_]path[= ](?!(?:none|null)$|-).+"
    r"|load(?:[-_](?:from|checkpoint|ckpt|dir|path)\w*)?[= ](?!(?:false|no|none|null|0)$|-).+)",
    re.I,
)
_NO: Final = re.compile(r"false|no|none|never|null|0|off", re.I)


def _judged_all(pick: Pick, value: CheckpointsValue) -> list[Check]:
    """Say what is newer than the pick and why it is passed over; what is unclear blocks."""
    newer = [item for item in value.items if _newer(item, pick, value)]
    archived = [item for item in newer if item.archived]
    unclear = [item for item in newer if item.state is CheckpointState.UNKNOWN]
    if archived and archived == unclear:
        text = f"{called(archived[-1])} is newer and {archived[-1].note}"
        text += f", or go on from {called(pick)}"
        return [warned(rows.NEWER, text, value=archived[-1].path)]
    if unclear:
        text = f"{called(unclear[-1])} is newer and cannot be judged: {unclear[-1].note or '?'}"
        return [blocked(rows.NEWER, text, value=unclear[-1].path)]
    writing = [item for item in newer if item.state is CheckpointState.WRITING]
    if writing and not writing[-1].protected:
        text = f"{called(writing[-1])} was being written a moment ago: try again"
        return [warned(rows.NEWER, text, value=writing[-1].path)]
    return _others(newer)


def _led_astray(pick: Pick, value: CheckpointsValue) -> list[Check]:
    """Block where something names a newer one that is not whole: some trainers go by that.

    One that saves in the background may move its link before the save is whole.
    """
    newer = (item for item in value.items if _newer(item, pick, value))
    torn = [item for item in newer if item.protected and item.state in _NOT_WHOLE]
    if not torn:
        return []
    text = f"{called(torn[-1])} is {torn[-1].state.value}, and {'; '.join(torn[-1].protected)}:"
    text += " a trainer that goes by it fails or begins anew; name the checkpoint in the command"
    text += " with {checkpoint}, or make it lead elsewhere"
    return [finding(rows.NEWER_NAMED, text, value=torn[-1].path)]


def _others(newer: Sequence[Checkpoint]) -> list[Check]:
    """Say which newer ones are not this run's; where that is not sure, the pick is not either."""
    others = [item for item in newer if item.complete and not item.own]
    if not others:
        return []
    unsure = [item for item in others if item.whose is Whose.UNSURE]
    last = (unsure or others)[-1]
    text = f"{listed_steps(unsure or others)} passed over ({called(last)}: {last.lineage})"
    if unsure:
        text += "; move what is another run's to a folder of its own"
        return [blocked(rows.OTHERS_NEWER, f"not surely this run's: {text}", value=last.path)]
    return [warned(rows.OTHERS_NEWER, f"not on this run's way: {text}", value=last.path)]


def _newer(item: Checkpoint, pick: Pick, value: CheckpointsValue) -> bool:
    """Tell whether one is newer than the pick: by step where both have one, else by its time."""
    step, ours = item.step if item.step is not None else item.name_step, value.at(pick.path)
    if step is not None and pick.step is not None:
        return step > pick.step
    if ours is None or ours.path == item.path:
        return False
    # What was written at the same moment is of the same save, or of the same copy.
    return (item.touched_at or 0.0) > (ours.touched_at or ours.saved_at or 0.0) + FILE_SKEW


def _of_this_run(context: ActionContext, pick: Pick) -> list[Check]:
    """Check that the pick lies in the run's own roots and that the run ever came that far."""
    value = context.report.facets.checkpoints.value
    items = value.items if value is not None else ()
    item = next((item for item in items if item.path == pick.path), None)
    roots = context.spec.checkpoints.path if context.spec.checkpoints is not None else ()
    if item is not None and not any(root.contains(place_of(item.root)) for root in roots):
        text = f"{pick.path} is in {item.root}, which is none of the run's roots"
        return [finding(rows.OUTSIDE_ROOTS, text)]
    if value is not None and value.unreached is not None and pick == value.relaunch_from:
        text = f"{called(pick)} may be another run's: {value.unreached}"
        return [blocked(rows.BEYOND_STEP, text, value=pick.path)]
    reached, spec = last_step(context.report), context.spec
    usual = context.report.usual_step_s
    every = spec.checkpoints.save_every if spec.checkpoints is not None else None
    # About the steps between two saves: trackers are flushed late.
    between = 100 if not usual or not every else max(100, round(every / usual))
    if reached is not None and pick.step is not None and pick.step > reached + between:
        last = f"the last step logged, {wording.step(reached)}"
        text = f"step {wording.step(pick.step)} is beyond {last}: check that it belongs to this run"
        return [warned(rows.BEYOND_STEP, text)]
    return []


def last_step(report: RunReport) -> int | None:
    """Return the last step that the log or the tracker has seen of the run."""
    log, tracker = report.facets.log.value, report.facets.tracker.value
    steps = [row.step for row in log.rows[-1:]] if log is not None else []
    steps.append(tracker.step if tracker is not None else None)
    progress = report.progress
    saved = progress.step_source is not None and progress.step_source.startswith("checkpoints")
    steps.append(None if saved else progress.step)  # else a pick would vouch for itself
    return max((step for step in steps if step is not None), default=None)


def from_scratch(context: ActionContext) -> list[Check]:
    """Check that a launch finds an empty lineage; where one failed early, the DRI decides."""
    facet, run = context.report.facets.checkpoints, context.spec
    value, job = facet.value, context.report.facets.job.value
    unlisted = value is not None and value.unlisted
    if facet.error is not None and (unlisted or (value is None and facet.error.kind.value not in (
        "not_found", "not_configured",
    ))):  # fmt: skip
        return [finding(rows.HAS_CHECKPOINT, f"checkpoints unknown: {facet.error.message}")]
    whole = None if value is None else newest_of(item for item in value.items if item.complete)
    if whole is not None:
        text = f"there is a complete checkpoint, {called(whole)}"
        text = f"{text}: relaunch this run instead (cockpit relaunch {run.name})"
        return [finding(rows.HAS_CHECKPOINT, text)]
    if value is not None and value.unjudged:
        text = f"{unlooked(value)}, so there may be a checkpoint: plan again"
        return [finding(rows.HAS_CHECKPOINT, text)]
    steps = context.report.facets.tracker.value
    if value is not None and value.unrecognised:
        text = "; ".join(value.notes)
        text += f"; starting from scratch needs the approval of {run.dri or 'the DRI'}"
        return [blocked(rows.FROM_SCRATCH, text)]
    trained = job is not None or (steps is not None and steps.step is not None)
    if trained or (value is not None and value.items):
        text = "the run started before and has no complete checkpoint: starting from scratch"
        text += f" needs the approval of {run.dri or 'the DRI'}"
        return [blocked(rows.FROM_SCRATCH, text)]
    return [passed(rows.FROM_SCRATCH, "starts from scratch: nothing of this lineage exists yet")]


def initialize_from(run: RunSpec) -> list[Check]:
    """Check the step in its name and its ``metadata.json``; the step inside wins. Blocking.

    One that does not lie on this machine is looked at by ``away.origin``.
    """
    source = run.checkpoints.initialize_from if run.checkpoints is not None else None
    if source is None:
        return [passed(rows.ORIGIN, "initialize_from: none", Basis.RECORDED)]
    named, where = named_step(source.path), str(source)
    if not is_folder(where):
        return [blocked(rows.ORIGIN, f"initialize_from {source} is not a folder", value=where)]
    return [_inside(where, named)]


def _inside(source: str, named: int | None) -> Check:
    step = marked_step(source)
    if isinstance(step, str):
        text = f"initialize_from {source} is not complete: {step}"
        return blocked(rows.ORIGIN, text, value=source)
    without = _emptied(source)
    if without is not None:
        text = f"initialize_from {source} is not complete: {without}"
        return blocked(rows.ORIGIN, text, value=source)
    return begins_with(source, step, named)


def begins_with(source: str, step: int, named: int | None) -> Check:
    """Say with which step a run begins, and where the name of its source says another one."""
    text = f"initialize_from step {wording.step(step)}, complete: {source}"
    if named is not None and named != step:
        return warned(rows.ORIGIN, f"{text}; its name says {wording.step(named)}", value=source)
    return passed(rows.ORIGIN, text, value=source)


def _emptied(source: str) -> str | None:
    """Return why nothing but its marker is left of a checkpoint, if that is so; blocking."""
    try:
        value = list_checkpoints([source], now=0.0)
    except (ListingError, ValueError) as error:
        return f"it cannot be listed: {error}"
    return next((item.note for item in value.items if item.emptied), None)


def marked_step(folder: str) -> int | str:
    """Return the step that ``metadata.json`` tells, or why there is none; blocking."""
    try:
        marker = f"{folder.rstrip('/')}/metadata.json"
        with open_regular(marker) as (number, _), open(number, "rb", closefd=False) as file:
            document = json.loads(file.read(BIGGEST))
        step = document["step"]
    except OSError as error:
        return f"metadata.json: {(error.strerror or 'cannot be read').lower()}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "no step in metadata.json"
    if isinstance(step, bool) or not isinstance(step, int):
        return "step in metadata.json is not a whole number"
    return step


def named_step(path: str) -> int | None:
    """Return the step in a checkpoint's name (``step-80000``, ``80000/``)."""
    match = _STEP.search(path.rstrip("/").rpartition("/")[2])
    return None if match is None else int(match[1])


SECONDS: Final = 15.0
SOME: Final = 4
"""Files of a checkpoint of which a byte is read: its marker, its largest ones."""


async def origin(source: Place, clock: Clock) -> Check:
    """Return whether ``initialize_from`` is a complete checkpoint, and of which step.

    What cannot be read blocks: a person may answer for it.
    """
    where = str(source)
    try:
        value = await list_anywhere([where], clock=clock)
    except (OSError, ValueError, TimeoutError, ListingError) as error:
        gone = isinstance(error, ListingError) and error.kind is ErrorKind.NOT_FOUND
        text = f"initialize_from {source} cannot be read: {safe(error)}"
        return blocked(rows.ORIGIN if gone else rows.ORIGIN_UNREAD, text, value=where)
    path = where.rstrip("/")
    item = next((item for item in value.items if item.path.rstrip("/") == path), None)
    if item is None:
        text = f"initialize_from {source} is not a checkpoint: no marker in it"
        return blocked(rows.ORIGIN, text, value=where)
    if not item.complete or item.step is None:
        why = item.note or item.state.value
        text = f"initialize_from {source} is not complete: {why}"
        return blocked(rows.ORIGIN, text, value=where)
    return begins_with(where, item.step, named_step(source.path))


async def occupied(root: Place, clock: Clock) -> str | None:
    """Return why a root is not free: something lies there, or that cannot be told."""
    tree = tree_at(root, clock)
    if tree is None:
        return f"{root} is on a system that cannot be read from here"
    path = root.path.rstrip("/")
    try:
        found = await tree.fetch([path], [], _until())
    except (ListingError, BucketError, TimeoutError) as error:
        return f"cannot tell whether {root} is empty: {safe(error)}"
    level = found.level(path)
    if isinstance(level, ListingError):
        return None if level.missing else f"cannot tell whether {root} is empty: {safe(level)}"
    if level is None:
        return f"cannot tell whether {root} is empty: no answer within {SECONDS:g} s"
    links = (link.name for link in level.links)
    names = sorted((*level.folders, *(entry.path for entry in level.files), *links))
    return f"{root} is not empty: {safe(names[0])}" if names else None


async def unreadable(pick: Place, clock: Clock) -> list[Check]:
    """Return why a checkpoint could not be loaded, as read from here: a byte of a few files."""
    tree = tree_at(pick, clock)
    if tree is None:
        return []
    try:
        trouble = await _unread(tree, pick.path.rstrip("/"))
    except (ListingError, BucketError, TimeoutError) as error:
        trouble = safe(error)
    if trouble is None:
        return [passed(rows.READABLE, f"{pick} could be read from here")]
    return [blocked(rows.READABLE, f"{pick} cannot be read from here: {trouble}", value=str(pick))]


async def _unread(tree: Tree, path: str) -> str | None:
    until = _until()
    parent, _, name = path.rpartition("/")
    found = await tree.fetch([], [path], until)
    walk = found.walk(path)
    files = walk.files if isinstance(walk, Walk) else ()
    if not files:
        level = (await tree.fetch([parent], [], until)).level(parent)
        single = level.files if isinstance(level, Level) else ()
        files, path = tuple(each for each in single if each.path == name), parent
    some = _some(files)
    if not some:
        return "nothing is there"
    pieces = {Piece(join(path, each.path), 0, 1): each for each in some}
    read = await tree.read(list(pieces), until)
    for piece, each in pieces.items():
        said = read.get(piece)
        if not isinstance(said, bytes):
            return f"{safe(each.path)}: {safe(said) if said is not None else 'no answer in time'}"
    return None


def _some(files: tuple[Entry, ...]) -> list[Entry]:
    full = [each for each in files if each.size]
    markers = sorted((e for e in full if "/" not in e.path), key=lambda e: latest(e.path))
    largest = sorted(full, key=lambda e: -e.size)
    return list(dict.fromkeys((*largest[: SOME // 2], *markers)))[:SOME]


def _until() -> float:
    return time.monotonic() + SECONDS
