"""Whether a save is whole: verl, NeMo, Composer, torchtune, litgpt, OLMo, fairseq and others.

For each: what recognises a save (``…_signs``), and what tells that it is whole, by the order in
which the trainer's own source writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.findings import (
    Assess,
    FolderFinding,
    Grade,
    by_file,
    doubtful,
    lacking,
    missing_beside,
    one_file,
    partial,
    unfinished,
    with_data,
)
from cockpit.sources.checkpoints.frameworks import ahead, named_file
from cockpit.sources.checkpoints.listing import (
    GLOBAL_STEP,
    ITERATION,
    LAST_CHECKPOINT,
    VEOMNI_MANIFEST,
    Folder,
    Listed,
    Root,
    number,
)

_OF_WORLD: Final = late_regex(r"((?:.*/)?\w+_world_size_)(\d+)(_rank_)(\d+)(\.pt)")


def verl_signs(folder: Folder, root: Root) -> bool:
    """By a file of one rank of an FSDP worker, or the actor beside the state of the data."""
    if folder.single or not folder.name.startswith("global_step_"):
        return False
    of_rank = any(_OF_WORLD.fullmatch(path) for path in folder.by_path)
    return of_rank or {"actor", "data.pt"} <= folder.top


def verl(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge by order: first the workers save, then ``data.pt`` is written, then the pointer.

    File names tell the world size. With ``async_save`` the pointer comes later, or not at all.
    What the pointer names is what is loaded, whole or not.
    """
    pointer = root.file(ITERATION) or root.file(GLOBAL_STEP)
    named = None if pointer is None else number(_text(pointer))
    step = number(folder.name.removeprefix("global_step_"))
    return replace(_verl(folder, root, pointer), named=named is not None and named == step)


def _verl(folder: Folder, root: Root, pointer: Listed | None) -> FolderFinding:
    marker = folder.by_path.get("data.pt")
    short = _ranks_short(folder.by_path) or partial(folder)
    short = short or missing_beside(folder, root.inside, ("actor", "policy"))
    if short is not None:
        return unfinished(short, marker)
    beside = missing_beside(folder, root.inside, ("critic",))
    if beside is not None or marker is None:
        return doubtful(beside or "no data.pt: with it the data would begin anew", marker)
    found = with_data(FolderFinding(Grade.COMPLETE, None, marker), folder)
    if pointer is None or found.grade is not Grade.COMPLETE:
        return found
    text = _text(pointer)
    named, step = number(text), number(folder.name.removeprefix("global_step_"))
    if named is None or step is None:
        return doubtful(f"{pointer.path} names no step: not confirmed", pointer)
    if step > named:
        target = next((f for f in root.folders if f.name == f"global_step_{named}"), None)
        return ahead(folder, target, pointer, str(named), root)
    return found


def _text(pointer: Listed) -> str:
    return (pointer.content or b"").decode("utf-8", "replace").strip()


def _ranks_short(paths: Iterable[str]) -> str | None:
    """Return which rank's file is missing of the world size that the names tell."""
    groups: dict[tuple[str, ...], set[int]] = {}
    for path in paths:
        match = _OF_WORLD.fullmatch(path)
        if match is not None:
            head, size, middle, rank, tail = match.groups()
            groups.setdefault((head, size, middle, tail), set()).add(int(rank))
    for (head, size, middle, tail), ranks in sorted(groups.items()):
        missing = set(range(min(int(size), _RANKS))) - ranks
        if missing:
            of = f"{len(ranks)} of {int(size)} parts of {head}{size}{middle}*{tail}"
            return f"{of} (rank {min(missing)} is missing)"
    return None


_RANKS: Final = 100_000


def automodel_signs(folder: Folder, root: Root) -> bool:
    """By the folders of the model and the optimizer."""
    if folder.single or _AUTOMODEL.fullmatch(folder.name) is None:
        return False
    if {"optim", ".incomplete"} & folder.top:
        return True
    return any(map(_AUTOMODEL_WEIGHTS.fullmatch, folder.by_path))


_AUTOMODEL: Final = late_regex(r"(?:epoch_\d+_)?step_\d+")
_AUTOMODEL_WEIGHTS: Final = late_regex(r"model/(?:.*\.(?:safetensors|distcp)|\.metadata)")
"""Another trainer's ``step_100/model/`` holds other files: fairseq2's ``pp_00/tp_00/sdp_00.pt``."""


def automodel(folder: Folder, root: Root) -> FolderFinding | None:
    """``.incomplete`` lies in it until it is published; before that its pointer moves on.

    Older releases have no such mark: there the last thing is the link ``LATEST``.
    """
    mark = folder.by_path.get(".incomplete")
    if mark is not None:
        return unfinished("the trainer's own mark .incomplete is in it", mark)
    short = partial(folder)
    if short is not None:
        return unfinished(short)
    beside = missing_beside(folder, root.inside, ("model", "optim"))
    if beside is not None:
        return doubtful(beside)
    found = with_data(FolderFinding(Grade.COMPLETE, None, None), folder)
    pointer = root.file("LATEST") or root.file("LATEST.txt")
    text = _text(pointer) if pointer is not None else ""
    named = root.led_to("LATEST") or text.rstrip("/").rpartition("/")[2] or None
    if found.grade is not Grade.COMPLETE or named is None:
        return found
    if folder.name == named:
        return replace(found, named=True)
    target = next((each for each in root.folders if each.name == named), None)
    later = _step_of(folder.name) > _step_of(named)
    if later and target is not None:
        return ahead(folder, target, Listed("LATEST", 0, 0.0), named, root)
    return found


def _step_of(name: str) -> int:
    return number(name.rpartition("_")[2]) or 0


def nemo_signs(folder: Folder, root: Root) -> bool:
    """By its name and the folder ``weights``, or a sharded save right in it."""
    if folder.single or "step=" not in folder.name or folder.name.endswith(".ckpt"):
        return False
    sharded = any(path.endswith(".distcp") for path in folder.by_path)
    return sharded or bool({"weights", "common.pt", "metadata.json"} & folder.top)


def nemo(folder: Folder, root: Root) -> FolderFinding | None:
    """Look for ``<name>-unfinished``: it lies beside a save while it is written or removed."""
    mark = root.file(f"{folder.name}-unfinished")
    if mark is not None:
        return unfinished(f"the trainer's own mark {mark.path} is there", mark)
    short = partial(folder)
    if short is not None:
        return unfinished(short)
    beside = missing_beside(folder, root.inside, ("weights", "context"))
    if beside is not None:
        return doubtful(beside)
    leads = any(link.name.endswith("last") for link in root.links_to(folder.name))
    return with_data(FolderFinding(Grade.COMPLETE, None, None, named=leads), folder)


def composer_signs(folder: Folder, root: Root) -> bool:
    """By its name: ``ep0-ba1000-rank0.pt``, or a folder of shards."""
    sharded = ".metadata" in folder.top or any(p.endswith(".distcp") for p in folder.by_path)
    return sharded if not folder.single else _COMPOSER.fullmatch(folder.name) is not None


_COMPOSER: Final = late_regex(r"(?:(?:ep\d+-)?ba(\d+)|latest)-rank\d+(?:\.\w+)*")


def composer(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge a file per rank, or a folder whose ``.metadata`` comes last; then the link moves on."""
    sharded = by_file(".metadata")
    found = named_file(folder, _COMPOSER) if folder.single else sharded(folder, root)
    names = {folder.name, *(file.path for file in folder.files)}
    led = {link.leads_to for link in root.links if link.name.startswith("latest-rank")}
    texts = (file for file in root.files if file.path.endswith(".symlink"))
    led |= {_text(file).rstrip("/").rpartition("/")[2] for file in texts}
    return None if found is None else replace(found, named=bool(led & names))


def torchtune_signs(folder: Folder, root: Root) -> bool:
    """By the state of the recipe in it, or in a folder of its own beside older saves."""
    if folder.single or not _TORCHTUNE.fullmatch(folder.name):
        return False
    own = "recipe_state.pt" in folder.top
    return own or any(each.name == "recipe_state" for each in root.lookalikes)


_TORCHTUNE: Final = late_regex(r"(?:epoch|step)_(\d+)")


def torchtune(folder: Folder, root: Root) -> FolderFinding | None:
    """``recipe_state.pt`` comes last; the final save has none and cannot be resumed.

    Older releases keep one for all saves, in ``recipe_state/``: it belongs to the newest.
    """
    short = lacking(folder, folder.by_path.get("recipe_state.pt"))
    if short is not None:
        return unfinished(short)
    epoch = folder.name if folder.name.startswith("epoch_") else None
    note = f"{epoch}: its step is not told" if epoch is not None else None
    marker = folder.by_path.get("recipe_state.pt")
    if marker is not None:
        if not marker.size:
            return unfinished("recipe_state.pt is empty", marker)
        return FolderFinding(Grade.COMPLETE, note, marker)
    last = max((each for each in root.folders), key=_number_of, default=folder)
    shared = any(each.name == "recipe_state" for each in root.lookalikes)
    if shared and last.name == folder.name:
        return FolderFinding(Grade.COMPLETE, note, None)
    return doubtful("no recipe_state.pt: weights only, cannot be resumed")


def _number_of(folder: Folder) -> int:
    match = _TORCHTUNE.fullmatch(folder.name)
    return -1 if match is None else number(match[1]) or 0


def litgpt_signs(folder: Folder, root: Root) -> bool:
    """By its file of weights."""
    return not folder.single and any(name.startswith("lit_model.pth") for name in folder.top)


def litgpt(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge by order: the weights, then the descriptions; LoRA saves hold no optimizer."""
    described = {"hyperparameters.yaml", "model_config.yaml", "lit_config.json"}
    if not described & folder.top:
        beside = missing_beside(folder, root.inside, sorted(described))
        return doubtful("no hyperparameters.yaml") if beside is None else unfinished(beside)
    found = by_file(*sorted(described & folder.top))(folder, root)
    if found is None or found.grade is not Grade.COMPLETE:
        return found
    if "lit_model.pth" in folder.by_path:
        return found
    if any(path.startswith("lit_model.pth/") for path in folder.by_path):
        short = partial(folder)
        return found if short is None else unfinished(short, found.marker)
    return doubtful("no lit_model.pth: weights of an adapter only, cannot be resumed", found.marker)


_OLMO: Final = late_regex(r"step(\d+)(?:-unsharded)?")
_OLMO_STATE: Final = ("train", "train.pt", "other.pt")


def olmo_signs(folder: Folder, root: Root) -> bool:
    """By its name and the state of the trainer or the model."""
    if folder.single or not _OLMO.fullmatch(folder.name):
        return False
    return bool({"model_and_optim", ".metadata.json", "model.pt", *_OLMO_STATE} & folder.top)


def olmo(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge by its name: it is ``step500-tmp`` until it is whole; in a bucket the last file tells.

    OLMo-core takes one that has its three files; the mark ``.metadata.json`` comes last.
    """
    if not _OLMO.fullmatch(folder.name):
        return unfinished("still under its staging name")
    core = "model_and_optim" in folder.top or ".metadata.json" in folder.top
    wanted = (".metadata.json", "model_and_optim/.metadata", "train/rank0.pt") if core else ()
    missing = next((name for name in wanted if not _there(folder, name)), None)
    others = [each for each in _alike(folder, root) if each.name != folder.name]
    if missing == ".metadata.json" and not any(missing in each.top for each in others):
        missing = None  # a sharded save of the older trainer has none
    if missing is not None:
        known = missing == "model_and_optim/.metadata" or any(_there(e, missing) for e in others)
        return unfinished(f"no {missing}") if known else doubtful(f"no {missing}")
    names = ("model.pt", "optim.pt", "model", "optim", "config.yaml", *_OLMO_STATE)
    inside = frozenset().union(*(each.top for each in others))
    beside = missing_beside(folder, inside, names)
    if beside is not None:
        return doubtful(beside)
    marker = folder.by_path.get(".metadata.json")
    return with_data(FolderFinding(Grade.COMPLETE, None, marker), folder)


def veomni_signs(folder: Folder, root: Root) -> bool:
    """By the weights in a folder of their own below ``model/``, beside the state of the ranks."""
    if folder.single or _VEOMNI.fullmatch(folder.name) is None:
        return False
    return VEOMNI_MANIFEST in folder.top or any(map(_VEOMNI_WEIGHTS.fullmatch, folder.by_path))


def veomni(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge as VeOmni does: its manifest is there, and each folder of shards has ``.metadata``.

    The manifest names the modules, each of which has weights; the shards of an asynchronous save
    may go on after it. A last save has no optimizer, but not for some modules alone.
    """
    marker = folder.by_path.get(VEOMNI_MANIFEST)
    modules = _veomni_modules(marker)
    short = partial(folder)
    if short is None and (marker is None or modules is None):
        short = f"no {VEOMNI_MANIFEST}" if marker is None else f"{VEOMNI_MANIFEST} is damaged"
    shards = {match[1] for match in map(_VEOMNI_SHARD.fullmatch, folder.by_path) if match}
    seen = {each.rpartition("/")[0] for each in shards}
    weights = {f"{each}/ckpt" for each in (*seen, *(modules or ()))} if shards else set()
    without = sorted(e for e in shards | weights if f"{e}/.metadata" not in folder.by_path)
    if short is None and without:
        short = f"no .metadata in {without[0]}"
    if short is not None:
        return unfinished(short, marker)
    if not shards and "model/" not in folder.by_path:  # a later look has the folder as one entry
        return doubtful("no shards below model/", marker)
    bare = {e for e in seen if f"{e}/optimizer" not in shards}
    lost = sorted(e for e in bare if f"{e}/lr_scheduler.pt" in folder.by_path)
    beside = missing_beside(folder, root.inside, ("extra_state", "loader"))
    if beside is None and lost and bare != seen:
        beside = f"no {lost[0]}/optimizer, which the other modules have"
    if beside is not None:
        return doubtful(beside, marker)
    return with_data(FolderFinding(Grade.COMPLETE, None, marker), folder)


def _veomni_modules(marker: Listed | None) -> list[str] | None:
    """Return the folders of the modules that a manifest names; ``None`` if it is damaged.

    A single model has no module of its own. One that could not be read names none.
    """
    if marker is None or marker.content is None:
        return []
    try:
        said = json.loads(marker.content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    named = said.get("modules") or []
    known = isinstance(named, list) and all(isinstance(each, str) for each in named)
    return ([f"model/{each}" for each in named] or ["model"]) if known else None


_VEOMNI: Final = late_regex(r"global_step_\d+")
_VEOMNI_SHARD: Final = late_regex(r"(model/(?:[^/]+/)?(?:ckpt|optimizer))/[^/]+")
_VEOMNI_WEIGHTS: Final = late_regex(r"model/(?:[^/]+/)?ckpt/(?:.*\.distcp|\.metadata)")


def _there(folder: Folder, path: str) -> bool:
    """Tell whether a file is there, or was when its folder was summed up as one entry."""
    return path in folder.by_path or f"{path.partition('/')[0]}/" in folder.by_path


def _alike(folder: Folder, root: Root) -> list[Folder]:
    """Return the other saves of the same kind: sharded, or not."""
    plain = folder.name.endswith("-unsharded")
    return [each for each in root.folders if each.name.endswith("-unsharded") is plain]


_NANOCHAT: Final = late_regex(r"(model|meta|optim)_(\d+)(?:_rank(\d+))?\.(?:pt|json)")


def nanochat_signs(folder: Folder, root: Root) -> bool:
    """By a file of the model and its description beside it."""
    match = _NANOCHAT.fullmatch(folder.name) if folder.single else None
    return match is not None and root.file(f"meta_{match[2]}.json") is not None


def nanochat(folder: Folder, root: Root) -> FolderFinding | None:
    """Model, description, then each rank its optimizer: as many files as its neighbours have."""
    found = one_file(folder)
    match = _NANOCHAT.fullmatch(folder.name)
    if found is None or match is None or found.grade is not Grade.COMPLETE:
        return found
    kinds: dict[str, set[str]] = {}
    for file in root.files:
        of = _NANOCHAT.fullmatch(file.path)
        if of is not None and file.size:
            kinds.setdefault(of[2], set()).add(of[1] if of[3] is None else f"{of[1]}_rank{of[3]}")
    mine = kinds.get(match[2], set())
    others = [each for digits, each in kinds.items() if digits != match[2]]
    most = set() if mine in others else set().union(*others)  # there may be fewer ranks now
    missing = sorted(({"model", "meta"} | most) - mine)
    if missing:
        short = f"no {missing[0]} of step {int(match[2])}, which the other saves have"
        return replace(unfinished(short), files=len(mine))
    if not any(kind.startswith("optim") for kind in mine):
        note = "no optimizer state: weights only, cannot be resumed"
        return replace(doubtful(note), files=len(mine))
    return replace(found, note=None, files=len(mine))


FAIRSEQ: Final = late_regex(
    r"checkpoint(?:_\d+_(\d+)|\d+|_last|_best)"
    r"(?:-model_part-\d+)?(?:-shard\d+)?(?:-rank-?\d+)?\.pt"
)


def fairseq_signs(folder: Folder, root: Root) -> bool:
    """By its name: ``checkpoint_<epoch>_<update>``."""
    return folder.single and FAIRSEQ.fullmatch(folder.name) is not None


def fairseq(folder: Folder, root: Root) -> FolderFinding | None:
    """Judge one file, or all shards of one save together."""
    return named_file(folder, FAIRSEQ)


SPEECHBRAIN: Final = late_regex(r"CKPT\+.+")


def speechbrain_signs(folder: Folder, root: Root) -> bool:
    """By its name and its first file."""
    named = not folder.single and SPEECHBRAIN.fullmatch(folder.name) is not None
    return named and ("CKPT.yaml" in folder.top or not folder.data)


def speechbrain(folder: Folder, root: Root) -> FolderFinding | None:
    """``CKPT.yaml`` comes first and nothing comes last: it must have what the others have."""
    marker = folder.by_path.get("CKPT.yaml")
    short = lacking(folder, marker) or missing_beside(folder, root.inside, sorted(root.inside))
    if marker is None or short is not None:
        return unfinished(short or "no CKPT.yaml", marker)
    if len(root.folders) < 2:
        return doubtful("no other save tells which files there must be", marker)
    return FolderFinding(Grade.COMPLETE, None, marker)


MMENGINE: Final = late_regex(r"iter_(\d+)\.pth|epoch_\d+\.pth")
DETECTRON2: Final = late_regex(r"model_(\d{7,})\.pth|model_final\.pth")


def beside_last_checkpoint(pattern: re.Pattern[str]) -> Callable[[Folder, Root], bool]:
    """Recognise a file by its name beside the pointer ``last_checkpoint``."""

    def signs(folder: Folder, root: Root) -> bool:
        named = pattern.fullmatch(folder.name.rpartition("/")[2]) is not None
        return folder.single and named and root.file(LAST_CHECKPOINT) is not None

    return signs


def up_to_last_checkpoint(pattern: re.Pattern[str]) -> Assess:
    """Judge one file; ``last_checkpoint`` is written after it, and is what a resume loads."""

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        found, pointer = named_file(folder, pattern), root.file(LAST_CHECKPOINT)
        if found is None or pointer is None:
            return found
        named = _text(pointer).rpartition("/")[2]
        found = replace(found, named=folder.name.rpartition("/")[2] == named)
        if found.grade is not Grade.COMPLETE or root.file(named) is None:
            return found
        if not _is_beyond(folder.name.rpartition("/")[2], named):
            return found
        note = f"newer than {pointer.path}, which names {named}"
        return replace(found, grade=Grade.AHEAD, note=note)

    return assess


_NUMBERED: Final = late_regex(r"(\D*)(\d+)(\D*)")


def _is_beyond(name: str, named: str) -> bool:
    """Tell of two names that differ in their number alone whether the first has the greater."""
    ours, theirs = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(named)
    if ours is None or theirs is None or ours.group(1, 3) != theirs.group(1, 3):
        return False
    return int(ours[2]) > int(theirs[2])
