"""From a listing to checkpoints: complete, writing or torn; which one is newest (SPEC K).

Pure: the caller brings the listing, the time, whether the job lives, and what it saw before. The
layout is the one asked for, or the one that a root's names and markers tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from cockpit.model.clock import FILE_SKEW
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.picking import newest_of, relaunch_pick
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.runtime.bucket_trouble import is_archived
from cockpit.sources.checkpoints.aside import aside_in
from cockpit.sources.checkpoints.layouts import (
    LAYOUTS,
    FolderFinding,
    Grade,
    Layout,
    is_single,
    lacking,
    whole_file,
)
from cockpit.sources.checkpoints.listing import SURE, Folder, Listed, Root, read_marker
from cockpit.sources.checkpoints.picks import JudgedCheckpoint, trainer_pick
from cockpit.sources.checkpoints.rejected import rejection_of
from cockpit.text.safe import clean

NAMES: Final = ("auto", *LAYOUTS, "custom")


def chosen_layout(spec: CheckpointSpec) -> Layout | None:
    """Return the layout that ``spec`` names, ``None`` for ``auto``.

    Raises ``ValueError`` with one line for an unknown name or a pattern that cannot be used.
    """
    if spec.custom is not None and spec.layout in ("auto", "custom"):
        return _custom(spec.custom)
    if spec.layout == "auto":
        return None
    if spec.layout in LAYOUTS:
        return LAYOUTS[spec.layout]
    if spec.layout == "custom":
        raise ValueError('layout "custom" needs a pattern and a marker')
    near = get_close_matches(spec.layout, NAMES, 1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise ValueError(f'unknown layout "{spec.layout}"; expected one of {", ".join(NAMES)}{hint}')


def _custom(custom: CustomLayout) -> Layout:
    try:
        pattern = re.compile(custom.pattern)
    except re.error as error:
        raise ValueError(f"custom pattern is not a regular expression: {error}") from error

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        if folder.single:
            return whole_file(folder)
        marker = folder.by_path.get(custom.marker)
        if marker is None:
            return FolderFinding(Grade.UNFINISHED, f"no {custom.marker or 'marker'}")
        said = read_marker(marker) if marker.path.endswith(".json") else None
        step = said.step if said is not None else None
        why = None if _WEIGHTS.fullmatch(custom.marker) else lacking(folder, marker)
        if why is not None:
            return FolderFinding(Grade.EMPTIED, why, marker, step)
        return FolderFinding(Grade.COMPLETE, None, marker, step)

    return Layout("custom", pattern, custom.marker, assess)


_WEIGHTS: Final = re.compile(r".*\.(?:pt|pth|bin|safetensors|ckpt|npz|npy|h5|hdf5|msgpack|pkl)")
"""Markers that are themselves what is loaded."""


def layout_of(root: Root) -> Layout:
    """Return the layout with most folders in ``root``; Levanter's when nothing tells."""
    votes = {name: 0 for name in LAYOUTS}
    files = [file for file in single_files(root) if SURE.fullmatch(file.name)]
    voting = [*root.folders, *files] or single_files(root)  # best.pt may lie beside anything
    for folder in voting:
        name = _vote(folder)
        if name is not None:
            votes[name] += 1
    best = max(votes, key=lambda name: votes[name])
    return LAYOUTS[best]


def _vote(folder: Folder) -> str | None:
    """Return the layout that a folder's name and files speak for, the most telling sign first."""
    named = {name for name, layout in LAYOUTS.items() if layout.pattern.fullmatch(folder.name)}
    marker = folder.by_path.get("metadata.json")
    stepped = marker is not None and read_marker(marker).step is not None
    committed = bool({"_CHECKPOINT_METADATA", "commit_success.txt"} & folder.top)
    sharded = ".metadata" in folder.top or any(path.endswith(".distcp") for path in folder.by_path)
    states = any(name.startswith("random_states_") for name in folder.top)
    signs = {
        "accelerate": "accelerate" in named and (states or "optimizer.bin" in folder.top),
        "lightning": folder.single and "lightning" in named,
        "nanogpt": folder.single and "nanogpt" in named,
        "megatron": "megatron" in named and not stepped,
        "orbax": ".orbax-checkpoint-tmp" in folder.name or ("orbax" in named and committed),
        "torchtitan": "torchtitan" in named and sharded,
        "deepspeed": "deepspeed" in named and not stepped,
        "hf": ("hf" in named or folder.name.startswith("tmp-checkpoint-")) and not stepped,
        "levanter": stepped or "levanter" in named,
    }
    return next((name for name, fits in signs.items() if fits), None)


def single_files(root: Root, layout: Layout | None = None) -> tuple[Folder, ...]:
    """Return the files of ``root`` that are checkpoints by themselves, as folders of one."""

    def counts(file: Listed) -> bool:
        own = layout is not None and layout.name == "custom"
        return bool(own and layout and layout.pattern.fullmatch(file.path)) or is_single(file.path)

    return tuple(
        Folder(file.path, (file,), file.mtime, single=True) for file in root.files if counts(file)
    )


QUIET: Final = 120.0
"""Seconds without a change after which an unfinished checkpoint is no longer being written."""
_PATH_LIMIT: Final = 4096


class SeenFolder(NamedTuple):
    """What one checkpoint looked like at the former observation."""

    size: int
    files: int
    complete: bool


class Circumstances(NamedTuple):
    """What is known beside the files; ``alive`` is ``None`` while the job's state is unknown.

    ``job_started`` is when the present job began: what was last touched before that, it does not
    write.
    """

    now: float
    alive: bool | None = None
    before: Mapping[str, SeenFolder] = {}
    final_step: int | None = None
    rejected: Sequence[Rejected] = ()
    job_started: float | None = None


def judge_listing(
    roots: Sequence[Root],
    around: Circumstances,
    spec: CheckpointSpec | None = None,
) -> CheckpointsValue:
    """Return every checkpoint under ``roots`` (permanent first), ascending by step.

    Raises ``ValueError`` only for a layout that does not exist; never for a listing.
    """
    spec = spec or CheckpointSpec()
    judged = _judge_all(roots, around, spec)
    complete = [one.item for one in judged if one.item.complete]
    newest = newest_of(complete)
    items = tuple(_protect(one, newest, around.final_step, spec) for one in judged)

    def by_step(item: Checkpoint) -> tuple[bool, int, float, str]:
        return (item.step is None, item.step or 0, item.saved_at or 0.0, item.path)

    steps = [item.step for item in complete if item.step is not None]
    return CheckpointsValue(
        latest_complete=max(steps, default=None),
        relaunch_from=relaunch_pick([one.item for one in judged]),
        trainer_would_load=trainer_pick(judged),
        items=tuple(sorted(items, key=by_step)),
        notes=tuple(_safe(note) for root in roots for note in root.notes),
    )


def remember(
    value: CheckpointsValue, roots: Sequence[Root], before: Mapping[str, SeenFolder]
) -> dict[str, SeenFolder]:
    """Return what the next observation needs to know: complete once is complete before."""
    complete = {item.path for item in value.items if item.state is CheckpointState.COMPLETE}
    complete |= {path for path, seen in before.items() if seen.complete}
    seen = {}
    for root in roots:
        for folder in (*root.folders, *single_files(root)):
            path = _path(root, folder)
            seen[path] = SeenFolder(folder.size, len(folder.files), path in complete)
    return seen


def _judge_all(
    roots: Sequence[Root], around: Circumstances, spec: CheckpointSpec
) -> tuple[JudgedCheckpoint, ...]:
    fixed = chosen_layout(spec)
    found: list[JudgedCheckpoint] = []
    for root in roots:
        layout = fixed or layout_of(root)
        for folder in (*root.folders, *single_files(root, layout)):
            if not layout.claims(folder):
                continue
            finding = (
                layout.assess(folder, root)
                if folder.error is None
                else FolderFinding(Grade.DOUBTFUL, f"cannot be listed: {folder.error}")
            )
            if finding is not None:
                item = _item(layout, folder, root, finding, around)
                item = _unless_unspeakable(item, root, folder)
                item = _unless_archived(item, folder)
                item = _unless_aside(item, folder, finding)
                item = _unless_rejected(item, around.rejected)
                found.append(JudgedCheckpoint(item, finding, layout.name))
    return tuple(found)


def _item(
    layout: Layout, folder: Folder, root: Root, finding: FolderFinding, around: Circumstances
) -> Checkpoint:
    path = _path(root, folder)
    name_step = layout.name_step(folder)
    state, remark = _state(finding, folder, around.before.get(path), around)
    by_place = None if root.temporary is None else not root.temporary
    return Checkpoint(
        step=name_step if finding.step is None else finding.step,
        name_step=name_step,
        path=path,
        root=_safe(root.path),
        state=state,
        marker=None if finding.marker is None else _safe(finding.marker.path),
        saved_at=_saved_at(finding, folder) if state is CheckpointState.COMPLETE else None,
        size=None if folder.error is not None else folder.size,
        permanent=by_place if finding.permanent is None else finding.permanent,
        note=_note(name_step, finding, remark),
        touched_at=folder.touched_at,
        layout=layout.name,
        emptied=finding.grade is Grade.EMPTIED,
    )


def _unless_unspeakable(item: Checkpoint, root: Root, folder: Folder) -> Checkpoint:
    """Say that an item is unknown whose path, as it can be shown, leads elsewhere or nowhere."""
    if item.path == _plain(root, folder):
        return item
    note = "its name holds characters that are not shown: no path leads to it"
    return item.model_copy(
        update={"state": CheckpointState.UNKNOWN, "note": note, "saved_at": None}
    )


def _unless_archived(item: Checkpoint, folder: Folder) -> Checkpoint:
    """Say of a checkpoint that a store has archived that it must be restored to be loaded."""
    read = (file.error for file in folder.files if folder.single)
    why = folder.archived or next(filter(is_archived, read), None)
    if why is None:
        return item
    state = CheckpointState.UNKNOWN
    return item.model_copy(
        update={"state": state, "note": _safe(why), "saved_at": None, "archived": True}
    )


def _unless_aside(item: Checkpoint, folder: Folder, finding: FolderFinding) -> Checkpoint:
    """Mark an item whose marker was moved aside, or that is being deleted, for what it is."""
    said = aside_in(folder)
    if said is None or (finding.grade is Grade.COMPLETE and not said.deleting):
        return item
    state = CheckpointState.INCOMPLETE if said.deleting else CheckpointState.REJECTED
    changed = {"state": state, "note": _safe(said.note), "saved_at": None}
    return item.model_copy(update={**changed, "half_deleted": said.deleting})


def _unless_rejected(item: Checkpoint, rejected: Sequence[Rejected]) -> Checkpoint:
    """Mark an item of a rejected lineage: no pick of ours takes it, the trainer's own may."""
    found = rejection_of(item, rejected)
    if found is None:
        return item
    notes = (f"rejected by {found.by}: {found.reason}", item.note)
    note = "; ".join(note for note in notes if note)
    return item.model_copy(update={"state": CheckpointState.REJECTED, "note": note})


def _path(root: Root, folder: Folder) -> str:
    return _safe(_plain(root, folder))


def _plain(root: Root, folder: Folder) -> str:
    return f"{root.path.rstrip('/')}/{folder.name}" if folder.name else root.path


def _safe(path: str) -> str:
    return clean(path, _PATH_LIMIT)


def _state(
    finding: FolderFinding, folder: Folder, before: SeenFolder | None, around: Circumstances
) -> tuple[CheckpointState, str | None]:
    if finding.grade is Grade.COMPLETE:
        return CheckpointState.COMPLETE, None
    if finding.grade is Grade.DOUBTFUL:
        return CheckpointState.UNKNOWN, None
    if finding.grade is Grade.EMPTIED:
        return CheckpointState.INCOMPLETE, None
    recent = _recent(folder, before, around.now)
    if before is not None and before.complete and recent:
        return CheckpointState.UNKNOWN, "was complete before; now being deleted or overwritten"
    if recent and around.alive is not False and not _left_behind(folder, before, around):
        return CheckpointState.WRITING, None
    return CheckpointState.INCOMPLETE, None


def _left_behind(folder: Folder, before: SeenFolder | None, around: Circumstances) -> bool:
    """Tell of one that a former job left: last touched before the present one began."""
    touched, began = folder.touched_at, around.job_started
    grew = before is not None and (folder.size, len(folder.files)) > (before.size, before.files)
    return not grew and touched is not None and began is not None and touched < began - FILE_SKEW


def _recent(folder: Folder, before: SeenFolder | None, now: float) -> bool:
    """Tell of a change within the last two minutes, or growth since the former observation.

    A time stamp from far in the future (clocks that disagree) proves nothing.
    """
    if before is not None and (folder.size, len(folder.files)) > (before.size, before.files):
        return True
    touched = folder.touched_at
    return touched is not None and -QUIET <= now - touched < QUIET


def _saved_at(finding: FolderFinding, folder: Folder) -> float | None:
    marker = finding.marker
    if marker is not None and folder.by_path.get(marker.path) == marker:
        return marker.mtime
    return folder.touched_at


def _note(name_step: int | None, finding: FolderFinding, remark: str | None) -> str | None:
    notes = [remark, finding.note]
    if finding.step is not None and name_step is not None and finding.step != name_step:
        notes.append(f"named {name_step}, but its marker says step {finding.step}")
    return "; ".join(note for note in notes if note) or None


def _protect(
    one: JudgedCheckpoint,
    newest: Checkpoint | None,
    final_step: int | None,
    spec: CheckpointSpec,
) -> Checkpoint:
    """Return the item with every reason for which a clean-up must leave it alone."""
    item, reasons = one.item, []
    if newest is not None and item is newest:
        reasons.append("newest complete")
    if item.state is CheckpointState.COMPLETE and item.step in spec.protect:
        reasons.append("protected in the run file")
    # step-N and step-(N-1) both hold a run of N steps (SPEC K)
    final = final_step is not None and item.step in (final_step - 1, final_step)
    if item.state is CheckpointState.COMPLETE and final:
        reasons.append("final")
    if spec.initialize_from and item.path == _safe(str(spec.initialize_from).rstrip("/")):
        reasons.append("initialize_from")
    return item.model_copy(update={"protected": tuple(reasons)})
