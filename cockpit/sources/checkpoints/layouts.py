"""How each framework names a checkpoint, marks it complete, and picks one to load (SPEC K).

A layout is a table entry: a name pattern, a marker, and one function that assesses a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.listing import (
    ANY_STEP,
    LIGHTNING,
    NUMBER,
    STAGING,
    STEP_NAME,
    TORCH_FILE,
    Folder,
    Listed,
    Root,
    number,
    read_marker,
    staged_step,
)
from cockpit.sources.checkpoints.parts import missing_ranks, partial, unconfirmed


class Grade(Enum):
    """What the files alone say; age and the job's state decide the rest.

    ``EMPTIED`` has its marker and no data: whoever writes the marker last does not write it now.
    """

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    EMPTIED = "emptied"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True)
class FolderFinding:
    """The judgement of one folder; ``step`` and ``stamp`` are what its marker says."""

    grade: Grade
    note: str | None = None
    marker: Listed | None = None
    step: int | None = None
    stamp: float | None = None
    permanent: bool | None = None


Assess = Callable[[Folder, Root], FolderFinding | None]


@dataclass(frozen=True)
class Layout:
    """One framework's way. ``assess`` returns ``None`` for a folder that is no checkpoint."""

    name: str
    pattern: re.Pattern[str]
    marker: str
    assess: Assess
    any_name: bool = False
    """True when the trainer ignores the folder's name and goes by the marker alone."""

    def name_step(self, folder: Folder) -> int | None:
        """Return the step that the folder's name tells, if it tells one."""
        staged = staged_step(folder.name)
        if staged is not None:
            return staged
        match = self.pattern.fullmatch(folder.name)
        return number(match.group(1)) if match is not None and match.re.groups else None

    def claims(self, folder: Folder) -> bool:
        """Return True when the folder's name belongs to this layout."""
        if self.pattern.fullmatch(folder.name) or STAGING.fullmatch(folder.name):
            return True
        marker = folder.by_path.get(self.marker) if self.any_name else None
        return marker is not None and read_marker(marker).step is not None


def _unfinished(note: str, marker: Listed | None = None) -> FolderFinding:
    return FolderFinding(Grade.UNFINISHED, note, marker)


def lacking(folder: Folder, marker: Listed | None, besides: str | None = None) -> str | None:
    """Return why there is nothing to load beside a marker, if that is so (SPEC K)."""
    name = besides or (marker.path if marker is not None else "its marker")
    data = [file for file in folder.data if marker is None or file.path != marker.path]
    if not data:
        return f"no data beside {name}"
    if not any(file.size for file in data):
        return f"all data beside {name} is empty"
    empty = next((file.path for file in data if file.size == 0 and _ARRAY.fullmatch(file.path)), "")
    if empty:
        return f"{empty} is empty"
    bare = next((item for item in _databases(folder) if not _holds(folder, item)), None)
    return partial(folder) if bare is None else f"no data beside {bare}manifest.ocdbt"


_ARRAY: Final = late_regex(r"(?:.*/)?d/[0-9a-f]{32}|.*\.(?:safetensors|bin|pt|pth)")
"""Files that are never empty: a shard of ``torch.distributed`` (``__3_0.distcp``) may be."""
_DATABASE: Final = late_regex(r"((?:.*/)?)manifest\.ocdbt")


def _databases(folder: Folder) -> list[str]:
    """Return where an OCDBT database lies that holds arrays: not the parts of one, by process."""
    found = (_DATABASE.fullmatch(file.path) for file in folder.files)
    return [match[1] for match in found if match is not None and "ocdbt.process_" not in match[1]]


def _holds(folder: Folder, prefix: str) -> bool:
    return any(file.size and file.path.startswith(prefix) for file in folder.data)


def _with_data(finding: FolderFinding, folder: Folder) -> FolderFinding:
    """Return the finding of a folder that has its marker; one without data is not complete."""
    why = lacking(folder, finding.marker)
    if why is None:
        return finding
    return replace(finding, grade=Grade.EMPTIED, note=why)


_EXPORT: Final = late_regex(r"config\.json|.*\.safetensors(\.index\.json)?|pytorch_model.*\.bin")


def _is_export(folder: Folder) -> bool:
    """Tell a Hugging Face export (``hf/step-500``): weights, but no arrays of a trainer."""
    arrays = {"d", "manifest.ocdbt", "manifest.json"} & folder.top
    return not arrays and any(_EXPORT.fullmatch(name) for name in folder.top)


def _by_metadata(folder: Folder, root: Root) -> FolderFinding | None:
    marker = folder.by_path.get("metadata.json")
    if marker is None:
        return None if _is_export(folder) else _unfinished("no metadata.json")
    if marker.error is not None:
        return FolderFinding(
            Grade.DOUBTFUL, f"{marker.path} cannot be read: {marker.error}", marker
        )
    said = read_marker(marker)
    if said.problem is not None:
        return _unfinished(f"metadata.json {said.problem}", marker)
    notes = []
    if said.stamp is None:
        notes.append("metadata.json has no timestamp, so Levanter does not find it")
    permanent = None if said.temporary is None else not said.temporary
    note = "; ".join(notes) or None
    found = FolderFinding(Grade.COMPLETE, note, marker, said.step, said.stamp, permanent)
    return _with_data(found, folder)


def _by_file(*names: str) -> Assess:
    """Complete when one of ``names`` lies in the folder and is not empty."""

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        marker = next((folder.by_path[name] for name in names if name in folder.by_path), None)
        if marker is None:
            return _unfinished(f"no {names[0]}")
        if marker.size == 0:
            return _unfinished(f"{marker.path} is empty", marker)
        return _with_data(FolderFinding(Grade.COMPLETE, None, marker), folder)

    return assess


_HF_OPTIMIZER: Final = late_regex(r"optimizer.*|global_step\d+|pytorch_model_fsdp.*")
_HF_BESIDE: Final = late_regex(r"(?:optimizer|scheduler|scaler|rng_state|training_args)[^/]*")
"""What the Trainer writes beside the model's weights, whatever those are called."""


def _ends(marker: Listed) -> bool:
    """Tell whether a JSON document is there up to its end; one that was not fetched may be."""
    return marker.content is None or marker.content.rstrip().endswith(b"}")


def _hugging_face(folder: Folder, root: Root) -> FolderFinding | None:
    found = _by_file("trainer_state.json")(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if found.marker is not None and not _ends(found.marker):
        return _unfinished("trainer_state.json is truncated", found.marker)
    if all(_HF_BESIDE.fullmatch(file.path) for file in folder.data):
        note = "no model weights beside trainer_state.json"
        return FolderFinding(Grade.EMPTIED, note, found.marker)
    if any(_HF_OPTIMIZER.fullmatch(name) for name in folder.top):
        return found
    note = "no optimizer state: weights only, cannot be resumed"
    return FolderFinding(Grade.DOUBTFUL, note, found.marker)


_RANDOM: Final = late_regex(r"(random_states_)(\d+)(\.pkl)")
_ACCELERATE_BESIDE: Final = late_regex(
    r"(?:optimizer|scheduler|sampler|scaler|random_states|custom_checkpoint|dl_state_dict)[^/]*"
    r"|(?:.*/)?[^/]*optim_states\.pt|optimizer_\d+/.*"
)
"""What ``accelerate`` writes beside the model's weights."""


def _accelerate(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete once the random states are there: each process writes its own at the end."""
    found = _by_file("random_states_0.pkl")(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if missing_ranks(folder.by_path, _RANDOM):
        return _unfinished("random states of some ranks are missing", found.marker)
    if all(_ACCELERATE_BESIDE.fullmatch(file.path) for file in folder.data):
        return FolderFinding(Grade.EMPTIED, "no model weights beside its states", found.marker)
    if any(_ACCELERATE_OPTIMIZER.fullmatch(file.path) for file in folder.files):
        return found
    note = "no optimizer state: weights only, cannot be resumed"
    return FolderFinding(Grade.DOUBTFUL, note, found.marker)


_ACCELERATE_OPTIMIZER: Final = late_regex(r"optimizer.*|(?:.*/)?[^/]*optim_states\.pt")
_ORBAX_SIGNS: Final = {"_CHECKPOINT_METADATA", "_METADATA", "commit_success.txt", "manifest.ocdbt"}
_ORBAX_ARRAYS: Final = {"_METADATA", "_sharding"}


def _orbax(folder: Folder, root: Root) -> FolderFinding | None:
    if ".orbax-checkpoint-tmp" in folder.name:
        return _unfinished("still under its staging name")
    names = {path.rpartition("/")[2] for path in folder.by_path}
    if not names & _ORBAX_SIGNS:
        return None
    commit = folder.by_path.get("commit_success.txt")
    # Object stores cannot rename, so there a commit is a file; so it is where one is seen.
    by_file = root.path.startswith(("gs://", "s3://")) or any(
        "commit_success.txt" in other.by_path for other in root.folders
    )
    if commit is None and by_file:
        return _unfinished("no commit_success.txt")
    marker = commit or folder.by_path.get("_CHECKPOINT_METADATA")
    found = FolderFinding(Grade.COMPLETE, None, marker)
    # A database that nothing describes any arrays of has lost none.
    bare = "manifest.ocdbt" in names and not names & _ORBAX_ARRAYS
    return found if bare and not _parts(folder) else _with_data(found, folder)


def _parts(folder: Folder) -> bool:
    """Tell whether the processes of a job have left their parts of a database."""
    return any("ocdbt.process_" in path or "array_metadatas/" in path for path in folder.by_path)


_ITERATION: Final = "latest_checkpointed_iteration.txt"
_MP_RANK: Final = late_regex(r"(mp_rank_)(\d+)((?:_\d+)?/.*)")
_RANK: Final = late_regex(r"(.*?)(\d+)((?:_mp_rank_\d+)?_?(?:optim|model)_states\.pt)")


def _by_pointer(name: str, prefix: str, ranked: re.Pattern[str]) -> Assess:
    """Complete up to the step that the root's pointer file names; unconfirmed without one.

    ``ranked`` finds the rank in the names of files of which each rank writes one.
    """

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        pointer = root.file(name)
        content = (pointer.content if pointer is not None else None) or b""
        named = number(content.decode("utf-8", "replace").strip().removeprefix(prefix))
        match = STEP_NAME.fullmatch(folder.name)
        step = number(match.group(1)) if match is not None else None
        if not folder.files:
            return _unfinished("no files", pointer)
        why = lacking(folder, None, "the descriptions")
        if why is not None:
            part = why == partial(folder)
            return FolderFinding(Grade.UNFINISHED if part else Grade.EMPTIED, why, pointer)
        if missing_ranks(folder.by_path, ranked):
            return _unfinished("files of some ranks are missing", pointer)
        if pointer is None or named is None or step is None:
            why = "no pointer file" if pointer is None else f"{pointer.path} names no step"
            return FolderFinding(Grade.DOUBTFUL, f"{why}: not confirmed", pointer)
        if step > named:
            return _unfinished(f"newer than {pointer.path}, which names {named}", pointer)
        fewer = f"fewer files than step {named}" if _fewer_files(folder, root, named) else None
        doubt = fewer or unconfirmed(folder, root)
        return FolderFinding(Grade.DOUBTFUL if doubt else Grade.COMPLETE, doubt, pointer)

    return assess


def _fewer_files(folder: Folder, root: Root, named: int) -> bool:
    for other in root.folders:
        match = STEP_NAME.fullmatch(other.name)
        if match is not None and number(match.group(1)) == named:
            return len(folder.files) < len(other.files)
    return False


def _one_file(folder: Folder, root: Root) -> FolderFinding | None:
    """One file holds all: only a cut-off zip can be told from its bytes."""
    file = folder.files[0] if folder.single and folder.files else None
    if file is None:
        return None
    if file.size == 0:
        return _unfinished("the file is empty")
    ends = file.content or b""  # its first 4 and last 22 bytes; torch.save writes a zip
    if ends[:4] == b"PK\x03\x04" and b"PK\x05\x06" not in ends[4:]:
        return _unfinished("the file is truncated")
    inside = file.inside
    return FolderFinding(Grade.COMPLETE, _about_step(file), file, inside.step if inside else None)


def _about_step(file: Listed) -> str | None:
    """Return why the file itself tells no step, where that is so, and the epoch if it does."""
    inside = file.inside
    if inside is None or inside.step is not None:
        return None
    epoch = f"; epoch {inside.epoch}" if inside.epoch is not None else ""
    return f"{inside.problem or 'its step is unknown'}{epoch}"


def _lightning(folder: Folder, root: Root) -> FolderFinding | None:
    found = _one_file(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if LAYOUTS["lightning"].name_step(folder) is not None:
        return replace(found, note=None)
    return _with_step(found) if found.step is not None else _without_step(found)


def whole_file(folder: Folder) -> FolderFinding | None:
    """Judge one file of a layout of one's own: its step may be in its name, or inside."""
    found = _one_file(folder, Root(""))
    return found if found is None or found.marker is None else _plain_file(found)


def _plain_file(found: FolderFinding) -> FolderFinding:
    """Return the finding; what is no archive of torch is taken for whole once it is not empty."""
    return found if found.step is not None else replace(found, note=None)


def _torch_file(folder: Folder, root: Root) -> FolderFinding | None:
    found = _one_file(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    return _with_step(found) if found.step is not None else _without_step(found)


def _with_step(found: FolderFinding) -> FolderFinding:
    """Return the finding of a file that tells its step; only a zip tells that it is whole."""
    file = found.marker
    if file is None or file.inside is None or file.inside.whole:
        return found
    note = "old torch.save format: cannot tell whether it is complete"
    return replace(found, grade=Grade.DOUBTFUL, note=note)


def _without_step(found: FolderFinding) -> FolderFinding:
    """Return the finding of a file whose step is unknown: whole where its archive is."""
    file = found.marker
    inside = file.inside if file is not None else None
    if inside is not None and inside.whole:
        return replace(found, note=f"step unknown: {found.note}")
    note = f"its step is inside the file: unknown; cannot tell whether it is complete: {found.note}"
    if inside is None:
        note = "its step is inside the file and unknown; each save overwrites it in place"
    return FolderFinding(Grade.DOUBTFUL, note, file)


LAYOUTS: Final[dict[str, Layout]] = {
    layout.name: layout
    for layout in (
        Layout("levanter", ANY_STEP, "metadata.json", _by_metadata, any_name=True),
        Layout("orbax", NUMBER, "_CHECKPOINT_METADATA", _orbax),
        Layout("hf", late_regex(r"checkpoint-(\d+)"), "trainer_state.json", _hugging_face),
        Layout(
            "accelerate",
            late_regex(r"(?:step[-_]|checkpoint-)(\d+)|(?:checkpoint|epoch)_\d+"),
            "random_states_0.pkl",
            _accelerate,
        ),
        Layout(
            "deepspeed",
            late_regex(r"global_step(\d+)"),
            "latest",
            _by_pointer("latest", "global_step", _RANK),
        ),
        Layout(
            "megatron", late_regex(r"iter_(\d+)"), _ITERATION, _by_pointer(_ITERATION, "", _MP_RANK)
        ),
        Layout(
            "torchtitan",
            late_regex(r"step-(\d+)"),
            ".metadata",
            _by_file(".metadata", "model.safetensors.index.json"),
        ),
        Layout("lightning", LIGHTNING, "", _lightning),
        Layout("nanogpt", TORCH_FILE, "", _torch_file),
    )
}


def is_single(name: str) -> bool:
    """Tell whether a file of this name is a checkpoint by itself."""
    single = (LAYOUTS["lightning"], LAYOUTS["nanogpt"])
    return any(layout.pattern.fullmatch(name) for layout in single)
