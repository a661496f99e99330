"""How each framework names a checkpoint, marks it whole, and picks one to load (SPEC K)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Pick
from cockpit.sources.checkpoints import frameworks as known
from cockpit.sources.checkpoints import listing, picks, trainers
from cockpit.sources.checkpoints.findings import Assess, by_file
from cockpit.sources.checkpoints.picks import JudgedCheckpoint


@dataclass(frozen=True)
class Layout:
    """One framework's way. ``assess`` returns ``None`` for a folder that is no checkpoint."""

    name: str
    pattern: re.Pattern[str]
    """The names of its saves; the first group that matches is the step."""
    marker: str
    """The file that makes a save whole, where one does."""
    assess: Assess
    signs: Callable[[listing.Folder, listing.Root], bool]
    """Whether the files of a save are of this layout and no other."""
    loads: picks.Loads | None = None
    """What its trainer takes by itself, if it has a rule that can be known."""
    by_command: bool = False
    """True when its trainer begins anew unless its command says what to load."""
    files: bool = False
    """True when its saves are files in the root, not folders."""
    sure: re.Pattern[str] | None = None
    """Names of its saves wherever they lie; others only where nothing better lies below."""
    beside: re.Pattern[str] | None = None
    """Files in the root that belong to its saves: pointers, marks, parts."""
    any_name: bool = False
    """True when its trainer goes by what lies in a folder, whatever its name."""

    def name_step(self, folder: listing.Folder) -> int | None:
        """Return the step that the folder's name tells, if it tells one."""
        staged = listing.staged_step(folder.name)
        return listing.number(self.digits(folder)) if staged is None else staged

    def digits(self, folder: listing.Folder) -> str | None:
        """Return the step in a folder's name as it is spelled there."""
        match = self.pattern.fullmatch(folder.name.rpartition("/")[2])
        groups = match.groups() if match is not None else ()
        return next((group for group in groups if group is not None), None)

    def recognises(self, folder: listing.Folder, root: listing.Root) -> bool:
        """Return True when both name and files of a save speak for this layout."""
        name = folder.name.rpartition("/")[2]
        named = self.any_name or self.pattern.fullmatch(name) or listing.STAGING.fullmatch(name)
        return bool(named) and self.signs(folder, root)

    def claims(self, folder: listing.Folder, root: listing.Root) -> bool:
        """Return True when the folder belongs to this layout, by its name or by its files."""
        name = folder.name.rpartition("/")[2]
        if self.pattern.fullmatch(name) or listing.STAGING.fullmatch(name):
            return True
        return self.any_name and self.signs(folder, root)


def _rows() -> tuple[Layout, ...]:
    """Return the layouts, those with the most telling signs first."""
    return (
        Layout(
            "verl",
            late_regex(r"global_step_(\d+)"),
            "data.pt",
            trainers.verl,
            trainers.verl_signs,
            loads=picks.of_pointer("verl and SkyRL: the step in their pointer file"),
            beside=late_regex("|".join(map(re.escape, listing.BY_NUMBER))),
        ),
        Layout(
            "veomni",
            late_regex(r"global_step_(\d+)"),
            "checkpoint_manifest.json",
            trainers.veomni,
            trainers.veomni_signs,
            loads=picks.of_whole("VeOmni (load_path: auto): greatest step that is whole"),
            by_command=True,
        ),
        Layout(
            "automodel",
            late_regex(r"(?:epoch_\d+_)?step_(\d+)"),
            "",
            trainers.automodel,
            trainers.automodel_signs,
            loads=picks.automodel,
            beside=late_regex(r"LATEST(?:\.txt)?"),
        ),
        Layout(
            "nemo",
            late_regex(r"(?!.*\.(?:ckpt|nemo)$).*step=(\d+).*"),
            "",
            trainers.nemo,
            trainers.nemo_signs,
            loads=picks.nemo,
            beside=late_regex(r".*-unfinished"),
        ),
        Layout(
            "composer",
            late_regex(
                r"(?!.*\.symlink$)"
                r"(?:(?:ep\d+-)?ba(\d+)(?:-rank\d+)?(?:\.\w+)*|latest-rank\d+(?:\.\w+)*)"
            ),
            "",
            trainers.composer,
            trainers.composer_signs,
            loads=picks.of_link("Composer (autoresume): what latest-rank0.pt leads to"),
            by_command=True,
            files=True,
            sure=late_regex(r"(?:ep\d+-)?ba\d+-rank\d+(?:\.\w+)*"),
            beside=late_regex(r"latest-rank\d+.*\.symlink"),
        ),
        Layout(
            "torchtune",
            late_regex(r"epoch_\d+|step_(\d+)"),
            "recipe_state.pt",
            trainers.torchtune,
            trainers.torchtune_signs,
            loads=picks.torchtune,
        ),
        Layout(
            "litgpt",
            late_regex(r"step-(\d+)|final"),
            "hyperparameters.yaml",
            trainers.litgpt,
            trainers.litgpt_signs,
            loads=picks.litgpt,
        ),
        Layout(
            "olmo",
            late_regex(r"step(\d+)(?:-unsharded)?"),
            ".metadata.json",
            trainers.olmo,
            trainers.olmo_signs,
            loads=picks.of_whole("OLMo: greatest step that is whole"),
        ),
        Layout(
            "nanochat",
            late_regex(r"model_(\d+)\.pt"),
            "",
            trainers.nanochat,
            trainers.nanochat_signs,
            by_command=True,
            files=True,
            sure=late_regex(r"model_\d{6,}\.pt"),
            beside=late_regex(r"(?:meta_\d+\.json|optim_\d+(?:_rank\d+)?\.pt)"),
        ),
        Layout(
            "fairseq",
            trainers.FAIRSEQ,
            "",
            trainers.fairseq,
            trainers.fairseq_signs,
            loads=picks.fairseq,
            by_command=True,
            files=True,
            sure=late_regex(r"checkpoint_\d+_\d+.*\.pt"),
        ),
        Layout(
            "speechbrain",
            trainers.SPEECHBRAIN,
            "CKPT.yaml",
            trainers.speechbrain,
            trainers.speechbrain_signs,
            loads=picks.speechbrain,
            sure=trainers.SPEECHBRAIN,
        ),
        Layout(
            "mmengine",
            trainers.MMENGINE,
            "",
            trainers.up_to_last_checkpoint(trainers.MMENGINE),
            trainers.beside_last_checkpoint(trainers.MMENGINE),
            loads=picks.of_pointer("MMEngine (resume): the file that last_checkpoint names"),
            by_command=True,
            files=True,
            beside=late_regex(listing.LAST_CHECKPOINT),
        ),
        Layout(
            "detectron2",
            trainers.DETECTRON2,
            "",
            trainers.up_to_last_checkpoint(trainers.DETECTRON2),
            trainers.beside_last_checkpoint(trainers.DETECTRON2),
            loads=picks.of_pointer("Detectron2 (resume): the file that last_checkpoint names"),
            by_command=True,
            files=True,
            sure=late_regex(r"model_\d{7,}\.pth"),
            beside=late_regex(listing.LAST_CHECKPOINT),
        ),
        Layout(
            "accelerate",
            known.ACCELERATE,
            "random_states_0.pkl",
            known.accelerate,
            known.accelerate_signs,
            any_name=True,
        ),
        Layout(
            "lightning",
            listing.LIGHTNING,
            "",
            known.lightning,
            known.is_file,
            by_command=True,
            files=True,
            sure=late_regex(r".*\.ckpt", re.S),
        ),
        Layout(
            "lightning-sharded",
            listing.LIGHTNING,
            "meta.pt",
            known.lightning_sharded,
            known.lightning_sharded_signs,
            by_command=True,
        ),
        Layout(
            "nanogpt",
            listing.TORCH_FILE,
            "",
            known.nanogpt,
            known.is_file,
            by_command=True,
            files=True,
            sure=late_regex(r"ckpt\.pt"),
        ),
        Layout(
            "megatron",
            late_regex(r"iter_(\d+)|release"),
            listing.ITERATION,
            known.megatron,
            known.megatron_signs,
            loads=picks.of_pointer("Megatron: the iteration in latest_checkpointed_iteration.txt"),
            beside=late_regex(re.escape(listing.ITERATION)),
        ),
        Layout(
            "orbax",
            listing.NUMBER,
            "_CHECKPOINT_METADATA",
            known.orbax,
            known.orbax_signs,
            loads=picks.orbax,
        ),
        Layout(
            "t5x",
            late_regex(r"checkpoint_(\d+)"),
            "checkpoint",
            by_file("checkpoint"),
            known.t5x_signs,
            loads=picks.of_whole("t5x and Flax: greatest step under its own name"),
        ),
        Layout(
            "torchtitan",
            late_regex(r"step-(\d+)"),
            ".metadata",
            by_file(".metadata", "model.safetensors.index.json", "metadata.pkl"),
            known.torchtitan_signs,
            loads=picks.of_whole("torchtitan: greatest step that has its metadata"),
        ),
        Layout(
            "deepspeed",
            late_regex(r"global_step(\d+)"),
            "latest",
            known.deepspeed,
            known.deepspeed_signs,
            loads=picks.of_pointer("DeepSpeed: the tag in the file latest"),
            beside=late_regex(r"latest"),
            any_name=True,
        ),
        Layout(
            "hf",
            late_regex(r"checkpoint-(\d+)"),
            "trainer_state.json",
            known.hugging_face,
            known.hugging_face_signs,
            loads=picks.hugging_face,
        ),
        Layout(
            "levanter",
            listing.ANY_STEP,
            "metadata.json",
            known.levanter,
            known.levanter_signs,
            loads=picks.levanter,
            any_name=True,
        ),
    )


LAYOUTS: Final[dict[str, Layout]] = {layout.name: layout for layout in _rows()}
BY_COMMAND: Final = frozenset(
    {"custom", *(name for name, row in LAYOUTS.items() if row.by_command or row.loads is None)}
)
"""Layouts whose trainers begin anew unless their command says what to load, or may do so."""


def is_single(name: str) -> bool:
    """Tell whether a file of this name is a checkpoint by itself, or a part of one."""
    return any(row.pattern.fullmatch(name) for row in LAYOUTS.values() if row.files)


def is_named(name: str) -> bool:
    """Tell whether a folder of this name is a save of a layout whose names are its own."""
    own = (row for row in LAYOUTS.values() if row.pattern not in (listing.ANY_STEP, listing.NUMBER))
    return any(row.pattern.fullmatch(name) for row in own)


def is_sure(name: str) -> bool:
    """Tell whether a file of this name is a checkpoint wherever it lies."""
    return any(row.sure.fullmatch(name) for row in LAYOUTS.values() if row.sure is not None)


def is_sure_folder(name: str) -> bool:
    """Tell whether a folder of this name is a checkpoint wherever it lies."""
    rows = (row for row in LAYOUTS.values() if not row.files and row.sure is not None)
    return any(row.sure is not None and row.sure.fullmatch(name) for row in rows)


def is_beside(name: str) -> bool:
    """Tell whether a file of this name in a root belongs to the saves there."""
    return any(row.beside.fullmatch(name) for row in LAYOUTS.values() if row.beside is not None)


def trainer_pick(judged: Sequence[JudgedCheckpoint], asked: str | None) -> Pick | None:
    """Return what the trainer loads if it is simply started again, and by which rule.

    It goes by the files alone: that a person has rejected one is nothing it knows of.
    ``None`` when it would find nothing, when its rule is not known, or when the command asks for
    another (``asked``).
    """
    for one in judged:
        row = LAYOUTS.get(one.layout)
        if row is not None and row.by_command and asked is not None:
            return None
        if row is not None and row.loads is not None:
            return row.loads([other for other in judged if other.layout == one.layout])
    return None
