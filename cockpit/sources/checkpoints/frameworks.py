"""Whether a save is whole: Levanter, Orbax, Hugging Face, DeepSpeed, Megatron, Lightning.

For each: what recognises a save (``…_signs``), and what tells that it is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.findings import (
    Assess,
    FolderFinding,
    Grade,
    by_file,
    doubtful,
    ends_as_json,
    inner_pointer,
    lacking,
    missing_beside,
    missing_ranks,
    one_file,
    partial,
    torch_file,
    unconfirmed,
    unfinished,
    with_data,
)
from cockpit.sources.checkpoints.listing import (
    ANY_STEP,
    ITERATION,
    LIGHTNING,
    NO_STEP,
    ORBAX_MARKS,
    STEP_NAME,
    Folder,
    Listed,
    Root,
    before_number,
    fewer_files,
    number,
    read_marker,
)

_EXPORT: Final = late_regex(r"config\.json|.*\.safetensors(\.index\.json)?|pytorch_model.*\.bin")


def is_export(folder: Folder) -> bool:
    """Tell a Hugging Face export (``hf/step-500``): weights, but no arrays of a trainer."""
    arrays = {"d", "manifest.ocdbt", "manifest.json"} & folder.top
    return not arrays and any(_EXPORT.fullmatch(name) for name in folder.top)


def is_file(folder: Folder, root: Root) -> bool:
    """Tell a save that is a file by itself; which one, its name tells."""
    return folder.single


def _stepped(folder: Folder) -> bool:
    """Tell whether Levanter's marker is there and names a step."""
    marker = folder.by_path.get("metadata.json")
    return marker is not None and read_marker(marker).step is not None


_TENSORSTORE: Final = late_regex(
    r"(?:.*/)?(?:manifest\.(?:ocdbt|json)|\.z(?:array|group|attrs)|zarr\.json)|(?:.*/)?d/.*"
)


_OF_OTHER_ARRAYS: Final = {*("checkpoint", "_METADATA", "_sharding", *ORBAX_MARKS)}
"""What Orbax, Flax and t5x write beside arrays that look like those of Levanter."""


def levanter_signs(folder: Folder, root: Root) -> bool:
    """By its marker; without one by its arrays, or where nothing in it speaks for another."""
    if any(path.endswith(".distcp") for path in folder.by_path):
        return False  # others write facts for people into a file of that name
    if _stepped(folder):
        return True
    if folder.single or not ANY_STEP.fullmatch(folder.name):
        return False
    if {path.rpartition("/")[2] for path in folder.by_path} & _OF_OTHER_ARRAYS:
        return False
    if any(_TENSORSTORE.fullmatch(file.path) for file in folder.files) or not folder.data:
        return True
    marker = folder.by_path.get("metadata.json")
    return marker is not None and read_marker(marker).problem != NO_STEP  # others have such a file


def levanter(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete by ``metadata.json``, which is written last."""
    marker = folder.by_path.get("metadata.json")
    if marker is None:
        return None if is_export(folder) else unfinished("no metadata.json")
    if marker.error is not None:
        return doubtful(f"{marker.path} cannot be read: {marker.error}", marker)
    said = read_marker(marker)
    if said.problem is not None:
        return unfinished(f"metadata.json {said.problem}", marker)
    note = None
    if said.stamp is None:
        note = "metadata.json has no timestamp, so Levanter does not find it"
    permanent = None if said.temporary is None else not said.temporary
    found = FolderFinding(Grade.COMPLETE, note, marker, said.step, said.stamp, permanent)
    lost = missing_beside(folder, root.inside, ("manifest.ocdbt",)) if "d" in folder.top else None
    if lost is not None:
        return replace(found, grade=Grade.EMPTIED, note=lost)
    return with_data(found, folder)


_HF_OPTIMIZER: Final = late_regex(r"optimizer.*|global_step\d+|pytorch_model_fsdp.*")
_HF_BESIDE: Final = late_regex(r"(?:optimizer|scheduler|scaler|rng_state|training_args)[^/]*")
"""What the Trainer writes beside the model's weights, whatever those are called."""
_HF_FILE: Final = late_regex(
    r"(?:pytorch_model|adapter_model|model)[^/]*\.(?:bin|safetensors)(?:/.*)?"
    r"|(?:optimizer|scheduler|scaler|rng_state|training_args|trainer_state)[^/]*(?:/.*)?"
    r"|config\.json|adapter_config\.json|pytorch_model_fsdp.*|global_step\d+/.*|zero_to_fp32\.py"
)


def hugging_face_signs(folder: Folder, root: Root) -> bool:
    """By a file of the Trainer, or where nothing in it speaks for another."""
    named = folder.name.startswith(("checkpoint-", "tmp-checkpoint-"))
    if folder.single or not named or _stepped(folder):
        return False
    return not folder.data or any(_HF_FILE.fullmatch(file.path) for file in folder.files)


def hugging_face(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete by ``trainer_state.json``, which is written after the weights and the optimizer."""
    found = by_file("trainer_state.json")(folder, root)
    theirs = any(map(_HF_BESIDE.fullmatch, folder.top)) or "trainer_state.json" in root.inside
    if folder.data and not theirs and partial(folder) is None:
        return doubtful("weights only (no save here has trainer_state.json), cannot be resumed")
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if found.marker is not None and not ends_as_json(found.marker):
        return unfinished("trainer_state.json is truncated", found.marker)
    if all(_HF_BESIDE.fullmatch(file.path) for file in folder.data):
        note = "no model weights beside trainer_state.json"
        return FolderFinding(Grade.EMPTIED, note, found.marker)
    lost = inner_pointer(folder)
    if lost is not None:
        return doubtful(lost, found.marker)
    if any(_HF_OPTIMIZER.fullmatch(name) for name in folder.top):
        return found
    return doubtful("no optimizer state: weights only, cannot be resumed", found.marker)


ACCELERATE: Final = late_regex(
    r"(?:step[-_]|checkpoint-)(\d+)|(?:checkpoint|epoch)_\d+|.*-step(\d{8})-state"
)
_RANDOM: Final = late_regex(r"(random_states_)(\d+)(\.pkl)")
_ACCELERATE_BESIDE: Final = late_regex(
    r"(?:optimizer|scheduler|sampler|scaler|random_states|custom_checkpoint|dl_state_dict)[^/]*"
    r"|(?:.*/)?[^/]*optim_states\.pt|optimizer_\d+/.*"
)
"""What ``accelerate`` writes beside the model's weights."""
_ACCELERATE_OPTIMIZER: Final = late_regex(r"optimizer.*|(?:.*/)?[^/]*optim_states\.pt")


def accelerate_signs(folder: Folder, root: Root) -> bool:
    """By the random states of its processes, or its optimizer."""
    if folder.single or "trainer_state.json" in folder.top:
        return False
    states = any(name.startswith("random_states_") for name in folder.top)
    named = ACCELERATE.fullmatch(folder.name) is not None
    return states or (named and "optimizer.bin" in folder.top)


def accelerate(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete once the random states are there: each process writes its own at the end."""
    found = by_file("random_states_0.pkl")(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if missing_ranks(folder.by_path, _RANDOM):
        return unfinished("random states of some ranks are missing", found.marker)
    if all(_ACCELERATE_BESIDE.fullmatch(file.path) for file in folder.data):
        return FolderFinding(Grade.EMPTIED, "no model weights beside its states", found.marker)
    lost = inner_pointer(folder)
    if lost is not None:
        return doubtful(lost, found.marker)
    if any(_ACCELERATE_OPTIMIZER.fullmatch(file.path) for file in folder.files):
        return found
    return doubtful("no optimizer state: weights only, cannot be resumed", found.marker)


_ORBAX_SIGNS: Final = {*ORBAX_MARKS, "_METADATA", "manifest.ocdbt"}
_ORBAX_ARRAYS: Final = {"_METADATA", "_sharding"}


def orbax_signs(folder: Folder, root: Root) -> bool:
    """By its staging name, a mark of a commit, or by its name beside saves with such marks."""
    if ".orbax-checkpoint-tmp" in folder.name:
        return True
    before = before_number(folder.name)
    # Before 2024 nothing at the top told of a commit: only the name did.
    arrays = {path.rpartition("/")[2] for path in folder.by_path} & _ORBAX_ARRAYS
    return before is not None and bool(arrays or before in root.orbax_spellings)


def t5x_signs(folder: Folder, root: Root) -> bool:
    """By its name and its file ``checkpoint``, which Flax writes too; Ray has a folder there."""
    named = not folder.single and _T5X.fullmatch(folder.name) is not None
    return named and "checkpoint" in folder.by_path


_T5X: Final = late_regex(r"checkpoint_\d+(?:\.tmp-\d+)?")


def orbax(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete once it is renamed; on Google's store once ``commit_success.txt`` is there.

    Newer releases write that file elsewhere too, so beside such saves one without it may be
    whole: of those, its own metadata must say that it was committed.
    """
    if ".orbax-checkpoint-tmp" in folder.name:
        return unfinished("still under its staging name")
    names = {path.rpartition("/")[2] for path in folder.by_path}
    metadata, commit = (folder.by_path.get(name) for name in ORBAX_MARKS)
    missing = missing_beside(folder, root.inside, ORBAX_MARKS)
    committed = _commit_time(metadata)
    if commit is None and root.path.startswith("gs://") and names & _ORBAX_SIGNS:
        note = "no commit_success.txt, without which Orbax does not load it"
        return doubtful(note, metadata) if committed else unfinished(note, metadata)
    if commit is None and missing is not None and not committed:
        return doubtful(missing, metadata)
    if not names & _ORBAX_SIGNS:
        return None
    found = FolderFinding(Grade.COMPLETE, None, commit or metadata)
    # A database that nothing describes any arrays of has lost none.
    bare = "manifest.ocdbt" in names and not names & _ORBAX_ARRAYS
    return found if bare and not _parts(folder) else with_data(found, folder)


def _commit_time(metadata: Listed | None) -> bool:
    """Tell whether a save's own metadata has the time of its commit."""
    try:
        said = json.loads(metadata.content or b"") if metadata is not None else None
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get("commit_timestamp_nsecs"), int)


def _parts(folder: Folder) -> bool:
    """Tell whether the processes of a job have left their parts of a database."""
    return any("ocdbt.process_" in path or "array_metadatas/" in path for path in folder.by_path)


def torchtitan_signs(folder: Folder, root: Root) -> bool:
    """By the files of ``torch.distributed.checkpoint``."""
    described = bool({".metadata", "metadata.pkl"} & folder.top)
    return described or any(path.endswith(".distcp") for path in folder.by_path)


_MP_RANK: Final = late_regex(r"(mp_rank_)(\d+)((?:_\d+)?/.*)")
_RANK: Final = late_regex(r"(.*?)(\d+)((?:_mp_rank_\d+)?_?(?:optim|model)_states\.pt)")


def deepspeed_signs(folder: Folder, root: Root) -> bool:
    """By the states of its ranks, under whatever tag; by its name where nothing is in it."""
    if folder.single or "trainer_state.json" in folder.top:
        return False
    states = any(name.endswith("_states.pt") for name in folder.top)
    named = folder.name.startswith("global_step") and not folder.data
    return (states or named) and not _stepped(folder)


def megatron_signs(folder: Folder, root: Root) -> bool:
    """By its name, which no other trainer uses; ``release`` also by its files."""
    if _stepped(folder) or folder.single or not folder.name.startswith(("iter_", "release")):
        return False
    sharded = any(_MP_RANK.fullmatch(path) or path.endswith(".distcp") for path in folder.by_path)
    return folder.name != "release" or sharded


def _content(pointer: Listed | None) -> str:
    raw = (pointer.content if pointer is not None else None) or b""
    return raw.decode("utf-8", "replace").strip()


def _by_pointer(
    name: str,
    leads_to: Callable[[str, Folder], bool],
    tag: re.Pattern[str],
    ranked: re.Pattern[str],
) -> Assess:
    """Complete up to the save that the root's pointer file names; unconfirmed without one.

    ``leads_to`` tells whether the text of the pointer names a folder; ``tag`` is what the text may
    be, its first group a step; ``ranked`` finds the rank in files of which each rank writes one.
    """

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        pointer = root.file(name)
        text = _content(pointer)
        if not folder.files:
            return unfinished("no files", pointer)
        why = lacking(folder, None, "the descriptions")
        if why is not None:
            part = why == partial(folder)
            return FolderFinding(Grade.UNFINISHED if part else Grade.EMPTIED, why, pointer)
        if missing_ranks(folder.by_path, ranked):
            return unfinished("files of some ranks are missing", pointer)
        said = tag.fullmatch(text)
        if pointer is None or said is None:
            why = "no pointer file" if pointer is None else f"{pointer.path} names no step"
            return doubtful(f"{why}: not confirmed", pointer)
        if leads_to(text, folder):
            doubt = unconfirmed(folder, root)
            return FolderFinding(Grade.DOUBTFUL if doubt else Grade.COMPLETE, doubt, pointer)
        target = next((each for each in root.folders if leads_to(text, each)), None)
        if _later(folder, pointer, 0 if text == "release" else number(said[1])):
            return ahead(folder, target, pointer, said[1] or text, root)
        fewer = target is not None and fewer_files(folder, target)
        named = f"step {said[1]}" if said[1] else text
        doubt = f"fewer files than {named}" if fewer else unconfirmed(folder, root)
        return FolderFinding(Grade.DOUBTFUL if doubt else Grade.COMPLETE, doubt, pointer)

    def with_name(folder: Folder, root: Root) -> FolderFinding | None:
        """Mark what the pointer names: that is what is loaded, whole or not."""
        found = assess(folder, root)
        named = leads_to(_content(root.file(name)), folder)
        return None if found is None else replace(found, named=named)

    return with_name


def _later(folder: Folder, pointer: Listed, named: int | None) -> bool:
    """Tell whether a save is newer than the one that the pointer names: by step, else by time."""
    match = STEP_NAME.fullmatch(folder.name)
    step = number(match.group(1)) if match is not None else None
    if step is not None and named is not None:
        return step > named
    touched = folder.touched_at
    return touched is not None and touched > pointer.mtime


def ahead(
    folder: Folder, target: Folder | None, pointer: Listed, named: str, root: Root
) -> FolderFinding:
    """Return what is known of a save that is newer than the one that the root's pointer names.

    It is being written, was torn, or is whole and the pointer was set back: its files alone do not
    tell, unless there are fewer of them than in the save that is named. That tells nothing of one
    that has its description, which comes last, or as many as another save: there were fewer ranks.
    """
    note = f"newer than {pointer.path}, which names {named}"
    described = any(path.rpartition("/")[2] in _LAST for path in folder.by_path)
    alike = any(
        len(each.files) == len(folder.files) for each in root.folders if each.name != folder.name
    )
    if target is not None and not described and not alike and fewer_files(folder, target):
        fewer = f"{len(folder.files)} files where that one has {len(target.files)}"
        return unfinished(f"{note}: {fewer}", pointer)
    return FolderFinding(Grade.AHEAD, note, pointer)


def _of_tag(text: str, folder: Folder) -> bool:
    return text == folder.name


_LAST: Final = (".metadata", "metadata.json")
"""What ``torch.distributed.checkpoint`` and Megatron write when all shards are there."""
deepspeed: Final = _by_pointer("latest", _of_tag, late_regex(r"(?:global_step(\d+)|.+)"), _RANK)


def _of_iteration(text: str, folder: Folder) -> bool:
    match = STEP_NAME.fullmatch(folder.name)
    step = number(match.group(1)) if match is not None else None
    return folder.name == text if step is None else step == number(text)


_megatron: Final = _by_pointer(ITERATION, _of_iteration, late_regex(r"(\d+)|release"), _MP_RANK)


def megatron(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete up to the iteration that the pointer names; ``release`` has weights only."""
    found = _megatron(folder, root)
    uneven = missing_ranks(folder.by_path, _MP_RANK, alike=True)
    if found is not None and found.grade is Grade.COMPLETE and uneven:
        note = "files of some ranks are missing"
        return replace(found, grade=Grade.UNFINISHED, note=note)
    if folder.name != "release" or found is None or found.grade is Grade.UNFINISHED:
        return found
    note = "weights only: a trainer that loads them begins at iteration 0"
    return replace(found, grade=Grade.DOUBTFUL, note=note)


def lightning(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge one file; its step is in its name, else inside."""
    return named_file(folder, LIGHTNING)


def lightning_sharded_signs(folder: Folder, root: Root) -> bool:
    """By its name, and by what its strategy (FSDP, DeepSpeed) leaves in the folder."""
    named = not folder.single and folder.name.endswith(".ckpt")
    return named and bool({"meta.pt", ".metadata", "checkpoint", "latest"} & folder.top)


def lightning_sharded(folder: Folder, root: Root) -> FolderFinding | None:
    """Complete by what is written last: FSDP's ``meta.pt``, DeepSpeed's ``latest``."""
    short = partial(folder)
    last = "latest" if {"checkpoint", "latest"} & folder.top else "meta.pt"
    return by_file(last)(folder, root) if short is None else unfinished(short)


def nanogpt(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge one file of torch by what its archive says."""
    return torch_file(folder)


def named_file(folder: Folder, pattern: re.Pattern[str]) -> FolderFinding | None:
    """Judge one file whose step is in its name, else inside."""
    found = one_file(folder)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    match = pattern.fullmatch(folder.name.rpartition("/")[2])
    if match is not None and number(match.group(1)) is not None:
        return replace(found, note=None)
    return torch_file(folder)
