"""A listing of checkpoint roots as plain values, so that any store can be judged alike.

And what Levanter's ``metadata.json`` in it says: step, time stamp, temporary or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.archive import ArchiveSays
from cockpit.sources.checkpoints.trainer_state import TrainerState

_WORDS: Final = r"(?:global_step|step|checkpoint|ckpt|iteration|iter)"
STEP_NAME: Final = late_regex(rf"{_WORDS}[-_]?(\d+)")
ANY_STEP: Final = late_regex(rf"(?:{_WORDS}[-_]?)?(\d+)")
NUMBER: Final = late_regex(r"(?:[A-Za-z_]+[-_])?(\d+)")
STAGING: Final = late_regex(
    rf"(?:(?P<orbax>{NUMBER.pattern})\.orbax-checkpoint-tmp(?:-\d+)?"
    rf"|\.?(?:tmp[-_.])?{_WORDS}[-_]?(\d+)[-_.](?:tmp|partial|incomplete)\b.*"
    r"|tmp-checkpoint-(\d+))"
)
MARKERS: Final = (
    "metadata.json",
    ".metadata",
    "trainer_state.json",
    "_CHECKPOINT_METADATA",
    "commit_success.txt",
    "random_states_0.pkl",
    "metadata.pkl",
)
"""Files whose presence makes a folder of any name worth a look."""
_TORCH: Final = r"\.(?:pt|pth|pt\.tar|pth\.tar)"
LIGHTNING: Final = late_regex(r"(?:(?:.*[-_])?step=(\d+).*|.*)\.ckpt", re.S)
TORCH_FILE: Final = late_regex(
    r"(?!(?:optim|sched|rng|scaler|training_args|tokenizer|lr_))"
    r"(?:(?:.*[-_.])?(?:global_?step|step|iteration|iter)[-_=]?(\d+)(?:[-_.].*)?"
    r"|(?:.*[-_.])?(?:ckpt|checkpoint|snapshot|last|latest|best|epoch)(?:[-_.=]?\d+)?(?:[-_.].*)?"
    r"|\d+)" + _TORCH,
    re.S,
)
"""One file that ``torch.save`` wrote, by the names in use. A number counts as a step only where
the name says so: ``ckpt_3.pt`` may be an epoch."""
ZERO_SHARD: Final = late_regex(r"((?:.*/)?(?:\w+_)?zero_pp_rank_)(\d+)(_.*optim_states\.pt)")
"""What one rank of DeepSpeed has of the optimizer."""
ITERATION: Final = "latest_checkpointed_iteration.txt"
POINTERS: Final = ("latest", ITERATION, "LATEST", "LATEST.txt")
"""Files in a root that name the newest checkpoint."""


def is_pointer(name: str) -> bool:
    """Tell of a file whose text names a checkpoint; where nothing can be linked, a link's text."""
    return name in POINTERS or name.endswith(".symlink")


_SAVE_WORD: Final = (
    r"(?:global_?step|step|epoch|ep|iter(?:ation)?|ba|ckpt|checkpoint|snapshot|model|weights"
    r"|params|state|train_state|last|latest|best|final|release)"
)
SAVE_NAME: Final = late_regex(
    rf"(?i)(?:.*[-_.=])?{_SAVE_WORD}(?:[-_.=]?\d+.*|[-_.].*\d.*)|release|best|last|final"
    rf"|(?:.*[-_.=])?\d+[km]?[-_]?{_SAVE_WORD}s?(?:[-_.].*)?|\d+"
)
"""Names that saves of whatever trainer have: a word for one and a number, or a number alone."""
_DATA: Final = late_regex(
    r".*\.(?:distcp|safetensors|pt|pth|bin|ckpt|npz|npy|msgpack|pkl|h5|hdf5|tar|index|orbax"
    r"|tensors|params|states?|keras|nemo)"
)
"""Files that hold weights or states."""
_OF_TRAINER: Final = late_regex(
    r".*\.distcp|.*_(?:model|optim)_states\.pt|.*_world_size_\d+_rank_\d+\.pt"
    r"|recipe_state\.pt|lit_model\.pth.*|random_states_\d+\.pkl"
)
"""Files that only a save has, whatever its name."""
_BARE: Final = late_regex(r"(?i)(?:ckpt|checkpoint|state|step)[-_]\d+")
"""A save that is one file without an ending (flax)."""
_MAX_STEP: Final = 2**63


class Link(NamedTuple):
    """A link in a root: where it leads, as it is written, and whether anything is there."""

    name: str
    target: str
    there: bool

    @property
    def leads_to(self) -> str:
        """The last part of where it leads: the name of a save beside it."""
        return self.target.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listed:
    """One file: its path relative to its folder, bytes, mtime (epoch seconds).

    ``content`` is there for small markers and pointers; ``error`` says why it is not.
    ``inside`` is what a checkpoint that is one file says of itself, where it could be read,
    ``state`` what a trainer's state says of the others.
    """

    path: str
    size: int
    mtime: float
    content: bytes | None = None
    error: str | None = None
    inside: ArchiveSays | None = None
    state: TrainerState | None = None


@dataclass(frozen=True)
class Folder:
    """One direct child of a root and every file below it; ``error``: it could not be listed."""

    name: str
    files: tuple[Listed, ...] = ()
    mtime: float | None = None
    error: str | None = None
    single: bool = False
    """True for a checkpoint that is one file (its ``files`` hold just that one)."""
    archived: str | None = None
    """Why its data must be restored before it can be loaded, where a store has archived it."""
    parts: frozenset[str] = frozenset()
    """Which parts of one save of many files lie beside each other: ranks, shards."""

    @cached_property
    def by_path(self) -> dict[str, Listed]:
        """The files by their path inside the folder."""
        return {file.path: file for file in self.files}

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @cached_property
    def touched_at(self) -> float | None:
        """The newest mtime of anything in it."""
        own = [] if self.mtime is None else [self.mtime]
        return max([*own, *(file.mtime for file in self.files)], default=None)

    @cached_property
    def top(self) -> frozenset[str]:
        """First path components: the names that a plain ``ls -a`` shows."""
        return frozenset(file.path.partition("/")[0] for file in self.files)

    @cached_property
    def data(self) -> tuple[Listed, ...]:
        """The files that hold arrays or state: all that no framework writes beside them."""
        return tuple(file for file in self.files if not _BESIDE.fullmatch(file.path))


_BESIDE: Final = late_regex(
    r"(?:.*/)?(?:metadata\.json|\.metadata|trainer_state\.json|manifest\.(?:ocdbt|json)|_METADATA"
    r"|_CHECKPOINT_METADATA|commit_success\.txt|_sharding|\.z(?:array|attrs|group|metadata)"
    r"|zarr\.json|latest|latest_checkpointed_iteration\.txt|metadata\.pkl|\.metadata\.json|\.incomplete|losses\.json|.*\.index\.json|[^/]*\.__lock"
    r"|.*\.(?:md|toml|ya?ml)|[^/]*(?:config|args|hparams)\.json"
    r"|tokenizer.*|special_tokens_map\.json|added_tokens\.json|vocab\.(?:json|txt)|merges\.txt"
    r"|chat_template.*|README.*|\.git.*|_SUCCESS|DONE"
    r"|[^/]+\.(?:rejected-\d{4}-\d\d-\d\d(?:-\d{1,3})?|deleting-[0-9a-f]{6,64}))"
    r"|(?:.*/)?array_metadatas/.*|(?:.*/)?(?:metrics|metadata)/(?:metrics|metadata)"
)
"""Descriptions, markers and locks: without anything else there is nothing to load."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A link in or beside a root, and the whole path to which it leads in the end."""

    name: str
    target: str


@dataclass(frozen=True)
class Root:
    """One checkpoint root: candidate folders and the files directly in it.

    ``temporary`` is what the run file says of it by its place in the list; ``None``: nothing.
    ``lookalikes`` look like saves by their names or files, but no known name is among them.
    ``singles`` are its files that are saves, once put together. ``notes`` say what there could not
    be read.
    """

    path: str
    folders: tuple[Folder, ...] = ()
    files: tuple[Listed, ...] = ()
    temporary: bool | None = None
    notes: tuple[str, ...] = ()
    lookalikes: tuple[Folder, ...] = ()
    links: tuple[Link, ...] = ()
    singles: tuple[Folder, ...] = ()
    leads: tuple[Lead, ...] = ()
    names: tuple[Listed, ...] = ()
    """Small files that may name a checkpoint, and the trainer's state beside the checkpoints."""
    real: str = ""
    """Its path with all links followed, as the targets of ``leads`` are."""

    def led_to(self, name: str) -> str | None:
        """Return the name of what a link in the root leads to, if there is such a link."""
        return next((link.leads_to for link in self.links if link.name == name), None)

    def links_to(self, name: str) -> list[Link]:
        """Return the links of the root that lead to something in it."""
        return [link for link in self.links if link.leads_to == name]

    def file(self, name: str) -> Listed | None:
        """Return the file called ``name`` directly in the root."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Listed]:
        return {file.path: file for file in self.files}

    @cached_property
    def inside(self) -> frozenset[str]:
        """What lies directly in any of its folders."""
        return frozenset().union(*(folder.top for folder in self.folders))


def compact(folder: Folder) -> Folder:
    """Return ``folder`` with each subfolder summed up as one entry: same size, age and names."""
    kept: list[Listed] = []
    sums: dict[str, Listed] = {}
    for file in folder.files:
        head, slash, _ = file.path.partition("/")
        if not slash:
            kept.append(file)
            continue
        former = sums.get(head, Listed(f"{head}/", 0, file.mtime))
        newest = max(former.mtime, file.mtime)
        sums[head] = Listed(former.path, former.size + file.size, newest)
    return replace(folder, files=(*kept, *sums.values()))


def fewer_files(folder: Folder, other: Folder) -> bool:
    """Tell whether a folder has fewer files than another, of which only a summary may be left."""
    summed = any(file.path.endswith("/") for file in (*folder.files, *other.files))
    ours, theirs = (compact(folder), compact(other)) if summed else (folder, other)
    return len(ours.files) < len(theirs.files)


def number(text: str | None) -> int | None:
    """Return a step from digits, or ``None`` when there are none or absurdly many."""
    if not text or not text.isdecimal() or len(text) > 19:
        return None
    value = int(text)
    return value if value < _MAX_STEP else None


def staged_step(name: str) -> int | None:
    """Return the step of a folder that has a staging name (``500.orbax-checkpoint-tmp-…``)."""
    match = STAGING.fullmatch(name)
    if match is None:
        return None
    return number(next((part for part in match.groups()[1:] if part is not None), None))


def looks_like_checkpoint(name: str) -> bool:
    """Return True for a name that is a step in one of the known spellings (SPEC K)."""
    return STEP_NAME.fullmatch(name) is not None or STAGING.fullmatch(name) is not None


def may_look_like_save(name: str, inside: Iterable[str], *, alone: bool) -> bool:
    """Tell by the names directly in a folder whether it may be a save of an unknown layout.

    ``alone``: no save lies beside it, or its name is one of a layout's; else only files of a
    trainer make it one.
    """
    names = list(inside)
    if any(map(_OF_TRAINER.fullmatch, names)):
        return True
    if not alone or SAVE_NAME.fullmatch(name) is None:
        return False
    return any(_DATA.fullmatch(each) or "." not in each for each in names)


def holds_data(folder: Folder) -> bool:
    """Tell whether any file in a folder may hold weights or states."""
    summed = (file.path.endswith("/") for file in folder.files)
    return any(summed) or any(file.size and _DATA.fullmatch(file.path) for file in folder.files)


def file_looks_like_save(name: str) -> bool:
    """Tell by its name whether a file may be a save of an unknown layout."""
    if _BARE.fullmatch(name):
        return True
    return SAVE_NAME.fullmatch(name) is not None and _DATA.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class LevanterMarker:
    """What a marker says; ``problem`` is why it does not make a checkpoint complete.

    ``stamp`` orders markers of one trainer; the trainer writes it as local time without a
    zone, so it is no instant.
    """

    step: int | None = None
    stamp: float | None = None
    temporary: bool | None = None
    problem: str | None = None


def read_marker(file: Listed) -> LevanterMarker:
    """Return what ``file`` says: complete only if it parses and holds a whole step (SPEC K)."""
    text = (file.content or b"").decode("utf-8", "replace").strip()
    if file.size == 0 or (file.content is not None and not text):
        return LevanterMarker(problem="is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return LevanterMarker(problem="is truncated or not JSON")
    if not isinstance(document, dict):
        return LevanterMarker(problem="is not a JSON object")
    step = _whole(document.get("step"))
    if step is None:
        return LevanterMarker(problem="has no step")
    temporary = document.get("is_temporary")
    return LevanterMarker(
        step=step,
        stamp=_stamp(document.get("timestamp")),
        temporary=temporary if isinstance(temporary, bool) else None,
    )


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return number(f"{value:.0f}")
    if isinstance(value, int | str):
        return number(str(value))
    return None


def _stamp(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
