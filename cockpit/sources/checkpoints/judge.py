"""From a listing to checkpoints: complete, writing or torn; which one is newest (SPEC K). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from cockpit.model.clock import FILE_SKEW
from cockpit.model.late_regex import late_regex
from cockpit.model.lineage import newest_of, relaunch_pick
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.records import Rejected
from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.runtime.bucket_client import is_archived
from cockpit.sources.checkpoints.contents import rejection_of
from cockpit.sources.checkpoints.findings import (
    FolderFinding,
    Grade,
    doubtful,
    lacking,
    put_together,
    whole_file,
    with_kin,
    with_parts,
    without_mark,
)
from cockpit.sources.checkpoints.frameworks import is_export
from cockpit.sources.checkpoints.layouts import (
    LAYOUTS,
    Layout,
    is_single,
    is_sure,
    trainer_pick,
)
from cockpit.sources.checkpoints.listing import (
    BY_NUMBER,
    INNER,
    POINTERS,
    STEP_NAME,
    Folder,
    Link,
    Listed,
    Naming,
    Root,
    aside_in,
    is_pointer,
    is_staged,
    naming_of,
    number,
    read_marker,
)
from cockpit.sources.checkpoints.picks import JudgedCheckpoint, asked_pick
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

    return Layout("custom", pattern, custom.marker, assess, lambda folder, root: False)


_WEIGHTS: Final = re.compile(r".*\.(?:pt|pth|bin|safetensors|ckpt|npz|npy|h5|hdf5|msgpack|pkl)")
"""Markers that are themselves what is loaded."""


def with_singles(root: Root, layout: Layout | None) -> Root:
    """Return a root with its files that are saves, those of many files as one each."""
    own = layout.pattern if layout is not None and layout.name == "custom" else None

    def counts(file: Listed) -> bool:
        if own is not None and own.fullmatch(file.path):
            return True
        return is_single(file.path.rpartition("/")[2])

    return replace(root, singles=put_together(file for file in root.files if counts(file)))


def layout_of(root: Root, votes: Mapping[int, str | None]) -> Layout | None:
    """Return the layout of most saves in ``root``, ``None`` when nothing there tells one.

    ``votes`` are what each save speaks for, by its identity.
    """
    files = [file for file in root.singles if is_sure(file.name.rpartition("/")[2])]
    # best.pt may lie beside anything; so may what no name tells
    for voting in ((*root.folders, *files), (*root.singles, *root.lookalikes)):
        count = Counter(votes[id(each)] for each in voting)
        best = max(LAYOUTS, key=lambda name: count[name])
        if count[best]:
            return LAYOUTS[best]
    return None


def layout_by_files(folder: Folder, root: Root) -> str | None:
    """Return the layout that a save's name and files speak for, the most telling sign first."""
    fitting = (name for name, row in LAYOUTS.items() if row.recognises(folder, root))
    return next(fitting, None)


_STEP: Final = late_regex(
    r"(?:.*[-_.=])?(?:global_?step|step|iter(?:ation)?|ba)[-_=]?(\d+)(?!\d).*"
    r"|model\.ckpt-(\d+)\.index"
)
NOTE: Final = "no layout here knows it"
NAMED: Final = 3
"""How many of the folders are named in a sentence."""


def _assess(folder: Folder, root: Root) -> FolderFinding | None:
    return doubtful(NOTE)


UNKNOWN: Final = Layout("", _STEP, "", _assess, lambda folder, root: False)
"""What stands for a row where none fits."""
LOST: Final = Layout("", late_regex(r"\D*(\d+)\D*"), "", _assess, lambda folder, root: False)
"""What stands for a row where a link leads to nothing: only its name is known."""


def unknown_layouts(names: Sequence[str], root: Root) -> Iterator[str]:
    """Yield that there are saves of no known layout, and what the root itself names."""
    if not names:
        return
    singles = {each.name for each in (*root.lookalikes, *root.singles) if each.single}
    what = "file" if all(name in singles for name in names) else "folder"
    some = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    look = (
        f"1 {what} that looks like a save"
        if len(names) == 1
        else (f"{len(names)} {what}s that look like saves")
    )
    yield f"{look}, no layout here knows them: {some}; cannot tell what a relaunch would take"
    for file in _pointers(root):
        yield f"{file.path} names {_named(file)}"
    for link in root.links:
        if link.there and link.leads_to in names:
            yield f"{link.name} leads to {link.leads_to}"


def lost_pointers(root: Root) -> Iterator[str]:
    """Yield each pointer and link of a root that leads to nothing there."""
    saves = {each.name for each in (*root.folders, *root.lookalikes, *root.singles)}
    for file in _pointers(root):
        name = _named(file)
        if file.path in BY_NUMBER and (step := number(name)) is not None:
            rows = LAYOUTS.values()
            there = any(row.name_step(each) == step for each in root.folders for row in rows)
        else:
            there = name.rstrip("/").rpartition("/")[2] in saves
        if not there and name and file.path in POINTERS:
            yield f"{file.path} names {name}, which is not there"
    for link in root.links:
        if not link.there and is_save_link(link) is None:
            yield leads_nowhere(link, f"{link.name} is a link")


def leads_nowhere(link: Link, what: str = "a link") -> str:
    """Return that nothing is where a link leads."""
    return f"{what} that leads nowhere" + (f": {link.target}" if link.target else "")


def is_save_link(link: Link) -> Folder | None:
    """Return a link to nothing as the save that its name says it was, if it says a step."""
    stepped = STEP_NAME.fullmatch(link.name) or _STEP.fullmatch(link.name)
    return None if link.there or not stepped else Folder(link.name)


def _pointers(root: Root) -> Iterator[Listed]:
    return (file for file in root.files if is_pointer(file.path) and file.content is not None)


def _named(file: Listed) -> str:
    return (file.content or b"").decode("utf-8", "replace").strip()[:200]


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
    write. ``asked`` is what the recorded command makes the trainer load, if it says so.
    """

    now: float
    alive: bool | None = None
    before: Mapping[str, SeenFolder] = {}
    final_step: int | None = None
    rejected: Sequence[Rejected] = ()
    job_started: float | None = None
    asked: str | None = None


def judge_listing(
    roots: Sequence[Root], around: Circumstances, spec: CheckpointSpec | None = None
) -> CheckpointsValue:
    """Return every checkpoint under ``roots`` (permanent first), ascending by step.

    Raises ``ValueError`` only for a layout that does not exist; never for a listing.
    """
    spec = spec or CheckpointSpec()
    judged, notes = _judge_all(roots, around, chosen_layout(spec))
    complete = [one.item for one in judged if one.item.complete]
    newest = newest_of(complete)
    places = {(one.item.root, one.name): one.item.path for one in judged}
    naming = naming_of(roots, places)
    items = tuple(_protect(one, newest, around.final_step, spec, naming) for one in judged)

    def by_step(item: Checkpoint) -> tuple[bool, int, float, str]:
        return (item.step is None, item.step or 0, item.saved_at or 0.0, item.path)

    load = trainer_pick(judged, around.asked) or asked_pick(judged, items, roots, around.asked)
    steps = [item.step for item in complete if item.step is not None]
    return CheckpointsValue(
        latest_complete=max(steps, default=None),
        relaunch_from=relaunch_pick([one.item for one in judged]),
        trainer_would_load=load,
        items=tuple(sorted(items, key=by_step)),
        notes=tuple(notes),
    )


def remember(
    value: CheckpointsValue, roots: Sequence[Root], before: Mapping[str, SeenFolder]
) -> dict[str, SeenFolder]:
    """Return what the next observation needs to know: complete once is complete before."""
    complete = {item.path for item in value.items if item.state is CheckpointState.COMPLETE}
    complete |= {path for path, seen in before.items() if seen.complete}
    seen = {}
    for root in roots:
        known = with_singles(root, None)
        for folder in (*known.folders, *known.singles, *known.lookalikes):
            path = _path(root, folder)
            seen[path] = SeenFolder(folder.size, len(folder.files), path in complete)
    return seen


class _RootSaves(NamedTuple):
    """The saves of one root: those of its layout, judged, and what no layout knows."""

    root: Root
    known: list[JudgedCheckpoint]
    strange: list[Folder]


def _of_root(bare: Root, around: Circumstances, fixed: Layout | None) -> _RootSaves:
    """Judge the saves that are of the root's layout: the one asked for, or that of most there."""
    root = with_singles(bare, fixed)
    saves = (*root.folders, *root.singles, *root.lookalikes)
    votes = {} if fixed is not None else {id(each): layout_by_files(each, root) for each in saves}
    layout = fixed or layout_of(root, votes)
    if layout is None:
        return _RootSaves(root, [], list(saves))
    # One that speaks for another layout by itself is none of this one.
    own = [
        each
        for each in saves
        if layout.claims(each, root) and votes.get(id(each)) in (None, layout.name)
    ]
    ours = {id(each) for each in own}
    beside = (each for each in root.lookalikes if id(each) in ours and not each.single)
    root = replace(root, folders=(*root.folders, *beside))
    findings = ((each, _finding(layout, each, root)) for each in own)
    known = [
        _judged(layout, each, root, found, around) for each, found in findings if found is not None
    ]
    weak = {id(each) for each in (*root.singles, *root.lookalikes)} if known else set()
    strange = [each for each in saves if id(each) not in ours and id(each) not in weak]
    return _RootSaves(root, known, strange if fixed is None or not known else [])


def _judge_all(
    roots: Sequence[Root], around: Circumstances, fixed: Layout | None
) -> tuple[list[JudgedCheckpoint], list[str]]:
    """Return the saves of all roots, and what else there is to say of these."""
    by_root = [_of_root(root, around, fixed) for root in roots]
    better = any(each.known for each in by_root)
    found: list[JudgedCheckpoint] = []
    notes: list[str] = []
    for root, known, all_strange in by_root:
        # What is empty, or an export of weights, is a save only where there is nothing better.
        strange = [e for e in all_strange if not better or (e.data and not is_export(e))]
        lost = [(is_save_link(link), link) for link in root.links]
        found += known
        found += (_judged(UNKNOWN, each, root, doubtful(NOTE), around) for each in strange)
        found += (
            _judged(LOST, each, root, doubtful(leads_nowhere(link)), around)
            for each, link in lost
            if each is not None
        )
        notes += root.notes
        notes += unknown_layouts([each.name for each in strange], root)
        notes += lost_pointers(root)
    return found, list(dict.fromkeys(map(_safe, notes)))


STAGED: Final = "whole by its own files, but still under its staging name"


def _finding(layout: Layout, folder: Folder, root: Root) -> FolderFinding | None:
    if folder.error is not None:
        return FolderFinding(Grade.DOUBTFUL, f"cannot be listed: {folder.error}")
    finding = layout.assess(folder, root)
    if finding is None or finding.grade is not Grade.COMPLETE:
        return finding
    # Levanter alone goes by its marker, which tells the step, whatever the folder is called.
    if finding.step is None and is_staged(folder.name):
        return replace(finding, grade=Grade.AHEAD, note=STAGED)
    if folder.parts:
        return with_parts(finding, folder, root)
    return with_kin(without_mark(finding, folder, root), folder, root)


def _judged(
    layout: Layout, folder: Folder, root: Root, finding: FolderFinding, around: Circumstances
) -> JudgedCheckpoint:
    item = _item(layout, folder, root, finding, around)
    item = _unless_unspeakable(item, root, folder)
    item = _unless_archived(item, folder)
    item = _unless_aside(item, folder, finding)
    return JudgedCheckpoint(_unless_rejected(item, around.rejected), finding, layout.name)


def _item(
    layout: Layout, folder: Folder, root: Root, finding: FolderFinding, around: Circumstances
) -> Checkpoint:
    path = _path(root, folder)
    name_step = layout.name_step(folder)
    step = name_step if finding.step is None else finding.step
    state, remark = _state(finding, folder, around.before.get(path), around)
    temporary = True if root.path.rpartition("/")[2] in INNER else root.temporary
    by_place = None if temporary is None else not temporary
    return Checkpoint(
        step=step,
        name_step=name_step,
        path=path,
        root=_safe(root.path),
        state=state,
        marker=None if finding.marker is None else _safe(finding.marker.path),
        saved_at=_saved_at(finding, folder, step) if state is CheckpointState.COMPLETE else None,
        size=None if folder.error is not None else folder.size,
        permanent=by_place if finding.permanent is None else finding.permanent,
        note=_note(name_step, finding, _odd_digits(layout, folder) or remark),
        touched_at=folder.touched_at,
        ordered_at=_ordered_at(finding, folder),
        layout=layout.name,
        emptied=finding.grade is Grade.EMPTIED,
        unrecognised=layout is UNKNOWN,
        files=max(finding.files, len(folder.files)) if folder.single else 1,
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
    recent = _recent(folder, before, around.now)
    if before is not None and before.complete and recent:
        going = len(folder.files) < before.files and finding.grade is Grade.EMPTIED
        if going or finding.grade not in _SETTLED:
            return CheckpointState.UNKNOWN, "was complete before; now being deleted or overwritten"
    if finding.grade in _SETTLED:
        return _SETTLED[finding.grade], None
    if recent and around.alive is not False and not _left_behind(folder, before, around):
        return CheckpointState.WRITING, None
    whole = finding.grade is Grade.AHEAD
    return CheckpointState.UNKNOWN if whole else CheckpointState.INCOMPLETE, None


_SETTLED: Final = {
    Grade.COMPLETE: CheckpointState.COMPLETE,
    Grade.DOUBTFUL: CheckpointState.UNKNOWN,
    Grade.EMPTIED: CheckpointState.INCOMPLETE,
}
"""What the files alone settle; of the others age and the job's state tell more."""


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


def _saved_at(finding: FolderFinding, folder: Folder, step: int | None) -> float | None:
    marker = finding.marker
    if marker is not None and finding.named and step is None:
        return marker.mtime  # its pointer was written when it was whole: that makes it the newest
    if marker is not None and folder.by_path.get(marker.path) == marker:
        return marker.mtime
    return folder.touched_at


def _odd_digits(layout: Layout, folder: Folder) -> str | None:
    """Return why a number in a name is not told as a step: it is too great for one."""
    digits = layout.digits(folder)
    if digits is None or number(digits) is not None:
        return None
    return f"the number in its name has {len(digits)} digits"


def _ordered_at(finding: FolderFinding, folder: Folder) -> float | None:
    """Return when it was written: what was added to it later (an export) counts for nothing."""
    marker = finding.marker
    if marker is not None and folder.by_path.get(marker.path) == marker:
        return marker.mtime
    times = sorted(file.mtime for file in folder.data or folder.files)
    return times[len(times) // 2] if times else folder.touched_at


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
    naming: Naming,
) -> Checkpoint:
    """Return the item with every reason for which a clean-up must leave it alone."""
    item, reasons = one.item, []
    if item.files > 1:
        reasons.append(f"one save of {item.files} files")
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
    reasons += naming.reasons.get(item.path, ())
    unknown = naming.unknown.get(item.root)
    if unknown is not None and item.complete:
        reasons.append(f"it may be named: {unknown}")
    return item.model_copy(update={"protected": tuple(reasons)})
