"""From a listing to checkpoints: complete, writing or torn; which one is newest (SPEC K).

Pure: the caller brings the listing, the time, whether the job lives, and what it saw before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec
from cockpit.sources.checkpoint_detect import chosen_layout, layout_of, single_files
from cockpit.sources.checkpoint_layouts import Finding, Grade, Layout
from cockpit.sources.checkpoint_listing import Folder, Root
from cockpit.sources.checkpoint_picks import Judged, newest_complete, relaunch_pick, trainer_pick
from cockpit.sources.checkpoint_rejected import rejection_of
from cockpit.text.safe import clean

QUIET: Final = 120.0
"""Seconds without a change after which an unfinished checkpoint is no longer being written."""
_PATH_LIMIT: Final = 4096


class Seen(NamedTuple):
    """What one checkpoint looked like at the former observation."""

    size: int
    files: int
    complete: bool


class Circumstances(NamedTuple):
    """What is known beside the files; ``alive`` is ``None`` while the job's state is unknown."""

    now: float
    alive: bool | None = None
    before: Mapping[str, Seen] = {}
    final_step: int | None = None
    rejected: Sequence[Rejected] = ()


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
    newest = newest_complete(judged)
    items = tuple(_protect(one, newest, around.final_step, spec) for one in judged)

    def by_step(item: Checkpoint) -> tuple[bool, int, float, str]:
        return (item.step is None, item.step or 0, item.saved_at or 0.0, item.path)

    return CheckpointsValue(
        latest_complete=None if newest is None else newest.item.step,
        relaunch_from=relaunch_pick(judged),
        trainer_would_load=trainer_pick(judged),
        items=tuple(sorted(items, key=by_step)),
    )


def remember(
    value: CheckpointsValue, roots: Sequence[Root], before: Mapping[str, Seen]
) -> dict[str, Seen]:
    """Return what the next observation needs to know: complete once is complete before."""
    complete = {item.path for item in value.items if item.state is CheckpointState.COMPLETE}
    complete |= {path for path, seen in before.items() if seen.complete}
    seen = {}
    for root in roots:
        for folder in (*root.folders, *single_files(root)):
            path = _path(root, folder)
            seen[path] = Seen(folder.size, len(folder.files), path in complete)
    return seen


def _judge_all(
    roots: Sequence[Root], around: Circumstances, spec: CheckpointSpec
) -> tuple[Judged, ...]:
    fixed = chosen_layout(spec)
    found: list[Judged] = []
    for root in roots:
        layout = fixed or layout_of(root)
        for folder in (*root.folders, *single_files(root)):
            if not layout.claims(folder):
                continue
            finding = (
                layout.assess(folder, root)
                if folder.error is None
                else Finding(Grade.DOUBTFUL, f"cannot be listed: {folder.error}")
            )
            if finding is not None:
                item = _item(layout, folder, root, finding, around)
                item = _unless_rejected(item, around.rejected)
                found.append(Judged(item, finding, layout.name))
    return tuple(found)


def _item(
    layout: Layout, folder: Folder, root: Root, finding: Finding, around: Circumstances
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
    )


def _unless_rejected(item: Checkpoint, rejected: Sequence[Rejected]) -> Checkpoint:
    """Mark an item of a rejected lineage: no pick of ours takes it, the trainer's own may."""
    found = rejection_of(item, rejected)
    if found is None:
        return item
    notes = (f"rejected by {found.by}: {found.reason}", item.note)
    note = "; ".join(note for note in notes if note)
    return item.model_copy(update={"state": CheckpointState.REJECTED, "note": note})


def _path(root: Root, folder: Folder) -> str:
    return _safe(f"{root.path.rstrip('/')}/{folder.name}" if folder.name else root.path)


def _safe(path: str) -> str:
    return clean(path, _PATH_LIMIT)


def _state(
    finding: Finding, folder: Folder, before: Seen | None, around: Circumstances
) -> tuple[CheckpointState, str | None]:
    if finding.grade is Grade.COMPLETE:
        return CheckpointState.COMPLETE, None
    if finding.grade is Grade.DOUBTFUL:
        return CheckpointState.UNKNOWN, None
    recent = _recent(folder, before, around.now)
    if before is not None and before.complete and recent:
        return CheckpointState.UNKNOWN, "was complete: being deleted or overwritten"
    if recent and around.alive is not False:
        return CheckpointState.WRITING, None
    return CheckpointState.INCOMPLETE, None


def _recent(folder: Folder, before: Seen | None, now: float) -> bool:
    """Tell of a change within the last two minutes, or growth since the former observation.

    A time stamp from far in the future (clocks that disagree) proves nothing.
    """
    if before is not None and (folder.size, len(folder.files)) > (before.size, before.files):
        return True
    touched = folder.touched_at
    return touched is not None and -QUIET <= now - touched < QUIET


def _saved_at(finding: Finding, folder: Folder) -> float | None:
    marker = finding.marker
    if marker is not None and folder.by_path.get(marker.path) == marker:
        return marker.mtime
    return folder.touched_at


def _note(name_step: int | None, finding: Finding, remark: str | None) -> str | None:
    notes = [remark, finding.note]
    if finding.step is not None and name_step is not None and finding.step != name_step:
        notes.append(f"named {name_step}, but its marker says step {finding.step}")
    return "; ".join(note for note in notes if note) or None


def _protect(
    one: Judged, newest: Judged | None, final_step: int | None, spec: CheckpointSpec
) -> Checkpoint:
    """Return the item with every reason for which a clean-up must leave it alone."""
    item, reasons = one.item, []
    if one is newest:
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
