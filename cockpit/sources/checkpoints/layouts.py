"""How each framework names a checkpoint, marks it complete, and picks one to load (SPEC K).

A layout is a table entry: a name pattern, a marker, and one function that assesses a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cockpit.sources.checkpoints.listing import (
    ANY_STEP,
    NUMBER,
    STAGING,
    STEP_NAME,
    Folder,
    Listed,
    Root,
    number,
    read_marker,
    staged_step,
)


class Grade(Enum):
    """What the files alone say; age and the job's state decide the rest."""

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
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


_EXPORT: Final = re.compile(r"config\.json|.*\.safetensors(\.index\.json)?|pytorch_model.*\.bin")


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
    if len(folder.files) == 1:
        notes.append("no data beside metadata.json")
    permanent = None if said.temporary is None else not said.temporary
    note = "; ".join(notes) or None
    return FolderFinding(Grade.COMPLETE, note, marker, said.step, said.stamp, permanent)


def _by_file(*names: str) -> Assess:
    """Complete when one of ``names`` lies in the folder and is not empty."""

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        marker = next((folder.by_path[name] for name in names if name in folder.by_path), None)
        if marker is None:
            return _unfinished(f"no {names[0]}")
        if marker.size == 0:
            return _unfinished(f"{marker.path} is empty", marker)
        return FolderFinding(Grade.COMPLETE, None, marker)

    return assess


_HF_OPTIMIZER: Final = re.compile(r"optimizer.*|global_step\d+|pytorch_model_fsdp.*")


def _hugging_face(folder: Folder, root: Root) -> FolderFinding | None:
    found = _by_file("trainer_state.json")(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if any(_HF_OPTIMIZER.fullmatch(name) for name in folder.top):
        return found
    note = "no optimizer state: weights only, cannot be resumed"
    return FolderFinding(Grade.DOUBTFUL, note, found.marker)


_ORBAX_SIGNS: Final = {"_CHECKPOINT_METADATA", "_METADATA", "commit_success.txt", "manifest.ocdbt"}


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
    return FolderFinding(Grade.COMPLETE, None, marker)


_ITERATION: Final = "latest_checkpointed_iteration.txt"
_MP_RANK: Final = re.compile(r"(mp_rank_)(\d+)((?:_\d+)?/.*)")
_RANK: Final = re.compile(r"(.*?)(\d+)((?:_mp_rank_\d+)?_?(?:optim|model)_states\.pt)")


def _missing_ranks(paths: Iterable[str], pattern: re.Pattern[str]) -> bool:
    """Return True when the ranks in file names are not 0, 1, 2 … without a gap."""
    groups: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        match = pattern.fullmatch(path)
        if match is not None:
            head, digits, tail = match.groups()
            groups.setdefault((head, tail), set()).add(int(digits))
    return any(ranks != set(range(len(ranks))) for ranks in groups.values())


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
        if _missing_ranks(folder.by_path, ranked):
            return _unfinished("files of some ranks are missing", pointer)
        if pointer is None or named is None or step is None:
            why = "no pointer file" if pointer is None else f"{pointer.path} names no step"
            return FolderFinding(Grade.DOUBTFUL, f"{why}: not confirmed", pointer)
        if step > named:
            return _unfinished(f"newer than {pointer.path}, which names {named}", pointer)
        if _fewer_files(folder, root, named):
            return FolderFinding(Grade.DOUBTFUL, f"fewer files than step {named}", pointer)
        return FolderFinding(Grade.COMPLETE, None, pointer)

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
    return FolderFinding(Grade.COMPLETE, None, file)


def _nanogpt(folder: Folder, root: Root) -> FolderFinding | None:
    found = _one_file(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    note = "its step is inside the file: unknown; a save overwrites it in place"
    return FolderFinding(Grade.DOUBTFUL, note, found.marker)


LAYOUTS: Final[dict[str, Layout]] = {
    layout.name: layout
    for layout in (
        Layout("levanter", ANY_STEP, "metadata.json", _by_metadata, any_name=True),
        Layout("orbax", NUMBER, "_CHECKPOINT_METADATA", _orbax),
        Layout("hf", re.compile(r"checkpoint-(\d+)"), "trainer_state.json", _hugging_face),
        Layout(
            "deepspeed",
            re.compile(r"global_step(\d+)"),
            "latest",
            _by_pointer("latest", "global_step", _RANK),
        ),
        Layout(
            "megatron", re.compile(r"iter_(\d+)"), _ITERATION, _by_pointer(_ITERATION, "", _MP_RANK)
        ),
        Layout(
            "torchtitan",
            re.compile(r"step-(\d+)"),
            ".metadata",
            _by_file(".metadata", "model.safetensors.index.json"),
        ),
        Layout("lightning", re.compile(r"(?:.*[-_])?step=(\d+).*\.ckpt"), "", _one_file),
        Layout("nanogpt", re.compile(r"ckpt\.pt"), "", _nanogpt),
    )
}


def is_single(name: str) -> bool:
    """Tell whether a file of this name is a checkpoint by itself."""
    single = (LAYOUTS["lightning"], LAYOUTS["nanogpt"])
    return any(layout.pattern.fullmatch(name) for layout in single)
