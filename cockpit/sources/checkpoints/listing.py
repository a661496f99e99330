"""A listing of checkpoint roots as plain values, and the names that protect saves in it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.archive import ArchiveSays
from cockpit.sources.checkpoints.parts import Kin, kin_of
from cockpit.text.safe import clean

TRAINER_STATE: Final = "trainer_state.json"
HEAD: Final = 1 << 16
"""First bytes that are read."""
TRAINER_STATE_BYTES: Final = 64
"""Last bytes that are read: they show whether the file ends."""
_KEY: Final = "best_model_checkpoint"
_BEST: Final = late_regex(rf'"{_KEY}"\s*:\s*(null|"(?:[^"\\]|\\.)*")')


class TrainerState(NamedTuple):
    """``best`` is the path of the best checkpoint; ``problem`` is why it is not known."""

    best: str | None = None
    problem: str | None = None


def read_state(head: bytes, *, whole: bool) -> TrainerState:
    """Return what the beginning of the file says; ``whole``: it is all of it."""
    text = head.decode("utf-8", "replace")
    try:
        document = json.loads(text) if whole else None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        best = document.get(_KEY)
        return TrainerState(best=best if isinstance(best, str) and best else None)
    found = None
    for match in _BEST.finditer(text):
        found = match
    if found is None:
        return TrainerState(problem="is damaged" if whole else f"has no {_KEY} near its beginning")
    try:
        best = json.loads(found[1])
    except ValueError:
        return TrainerState(problem="is damaged")
    return TrainerState(best=best or None)


_WORDS: Final = r"(?:global_step|step|checkpoint|ckpt|iteration|iter)"
STEP_NAME: Final = late_regex(rf"{_WORDS}[-_]?(\d+)")
ANY_STEP: Final = late_regex(rf"(?:{_WORDS}[-_]?)?(\d+)")
NUMBER: Final = late_regex(r"(?:[A-Za-z_]+[-_])?(\d+)")
STAGING: Final = late_regex(
    rf"(?:(?P<orbax>{NUMBER.pattern})\.orbax-checkpoint-tmp(?:-\d+)?"
    rf"|\.?(?:tmp[-_.])?{_WORDS}[-_]?(\d+)[-_.](?:tmp|partial|incomplete)\b.*"
    r"|tmp-checkpoint-(\d+))"
)
VEOMNI_MANIFEST: Final = "checkpoint_manifest.json"
ORBAX_MARKS: Final = ("_CHECKPOINT_METADATA", "commit_success.txt")
MARKERS: Final = (
    "metadata.json",
    ".metadata",
    "trainer_state.json",
    *ORBAX_MARKS,
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
INNER: Final = ("non_persistent",)
"""Folders in a root that are roots too: Megatron's, of saves that its next one replaces."""
GLOBAL_STEP: Final = "latest_ckpt_global_step.txt"
BY_NUMBER: Final = (ITERATION, GLOBAL_STEP)
"""Those of Megatron and verl, and of SkyRL: a step and nothing else."""
LAST_CHECKPOINT: Final = "last_checkpoint"
"""MMEngine's and Detectron2's: the file, or the path to it."""
POINTERS: Final = ("latest", *BY_NUMBER, "LATEST", "LATEST.txt", LAST_CHECKPOINT)
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
    r"|tensors|params|states?|keras|nemo|zip|pdparams)"
    r"|(?:.*/)?d/[^/]+"
)
"""Files that hold weights or states."""
_OF_TRAINER: Final = late_regex(
    r".*\.distcp|.*_(?:model|optim)_states\.pt|.*_world_size_\d+_rank_\d+\.pt"
    r"|recipe_state\.pt|lit_model\.pth.*|random_states_\d+\.pkl"
)
"""Files that only a save has, whatever its name."""
_BARE: Final = late_regex(
    r"(?i)(?:.*[-_.])?(?:ckpt|checkpoint|params|state|step)(?:\.[a-z]+)?[-_]\d+"
)
"""A save that is one file without an ending (Flax, EasyLM, big_vision)."""
_WEIGHT_FILE: Final = late_regex(
    r".*\d.*\.(?:safetensors|pth|pth\.tar|pt|pdparams|index|h5|keras|msgpack|th|ckpt)"
    r"|(?i:(?:.*[-_.])?(?:ckpt|checkpoint|snapshot|resume|last|latest|best)(?:[-_.].*)?"
    r"\.(?:pt|pth|th|ckpt|npz|h5|hdf5|msgpack|keras|zip|tar)(?:-\d+)?"
    r"|(?:.*[-_])?model[-_]\d+.*\.zip)"
)
"""Weights with a number in their name, whatever the words (a step, an epoch, a day), or with a word
for a save: ``G_2000.pth``, ``checkpoint.th``, ``rl_model_10000_steps.zip``."""
_MAX_STEP: Final = 2**63


class Link(NamedTuple):
    """A link in a root: where it leads, as it is written, and whether anything is there.

    ``real`` is where it leads in the end.
    """

    name: str
    target: str
    there: bool
    real: str = ""

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
    unnamed: int = 0
    """Folders in or beside it whose names were not listed in time."""
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
    def orbax_spellings(self) -> frozenset[str | None]:
        """What stands before the step in the names of the saves that Orbax has marked."""
        marked = (each for each in self.folders if not each.top.isdisjoint(ORBAX_MARKS))
        return frozenset(before_number(each.name) for each in marked) - {None}

    @cached_property
    def kin(self) -> Kin:
        """The names of its saves by what those of one save have in common."""
        saves = (*self.folders, *self.singles, *self.lookalikes)
        return kin_of(each.name for each in saves if not each.parts)

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


def is_staged(name: str) -> bool:
    """Tell whether a save of this name still waits for the rename that makes it one."""
    return STAGING.fullmatch(name) is not None or name.endswith(_STAGED)


_STAGED: Final = (".tmp", "-tmp", "_tmp", ".partial", ".incomplete")


def before_number(name: str) -> str | None:
    """Return what stands before the step in a name as Orbax spells it: a prefix, or nothing."""
    return name.rstrip("0123456789") if NUMBER.fullmatch(name) else None


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
    if _BARE.fullmatch(name) or _WEIGHT_FILE.fullmatch(name):
        return True
    return SAVE_NAME.fullmatch(name) is not None and _DATA.fullmatch(name) is not None


NO_STEP: Final = "has no step"
"""What is wrong with a whole ``metadata.json`` that is not Levanter's."""


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
        return LevanterMarker(problem=NO_STEP)
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


LIMIT: Final = 4096
SMALL: Final = 512
"""Bytes of a file up to which it may be one that names a checkpoint."""
_NO_POINTER: Final = late_regex(r".*\.(?:json|jsonl|ya?ml|toml|md|log|csv|py|sh|out|err|pid)|\..*")
_FIRST: Final = late_regex(r"(best|last|latest|final)(?:[-_.].*)?")
_AT_END: Final = late_regex(r".*[-_.](best|last|latest|final)(?:[-_.]?v?\d+)?(?:\.[a-z.]+)?")
_NAMES_STEP: Final = late_regex(r"(?:latest|last|best|checkpoint)[-_.\w]*")


@dataclass
class Naming:
    """What names saves: the reasons by path, by root why not all are known, and the best ones."""

    reasons: dict[str, list[str]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    best: set[str] = field(default_factory=set)

    def add(self, path: str, why: str) -> None:
        """Note a reason once."""
        known = self.reasons.setdefault(path, [])
        if why not in known:
            known.append(why)


def may_name(name: str, size: int) -> bool:
    """Tell of a file in a root that may name a checkpoint: small, and no configuration."""
    return 0 < size <= SMALL and _NO_POINTER.fullmatch(name) is None


def naming_of(roots: Sequence[Root], paths: Mapping[tuple[str, str], str]) -> Naming:
    """Return what names saves in the roots; ``paths`` is where each lies, by root and name."""
    found = Naming()
    for root in roots:
        at = clean(root.path, LIMIT)
        names = {name: path for (where, name), path in paths.items() if where == at}
        for name, path in names.items():
            role = _FIRST.fullmatch(name) or _AT_END.fullmatch(name)
            if role is not None:
                found.add(path, f"it is named as the {role[1]} one")
        _by_leads(root, roots, paths, found)
        for file in root.names:
            if file.error is not None:
                found.unknown[clean(root.path, LIMIT)] = f"{file.path} cannot be read: {file.error}"
            for name in _named_in(file, names):
                found.add(names[name], f"{file.path} names it")
        _by_states(root, names, found)
    return found


def _by_leads(
    root: Root, roots: Sequence[Root], paths: Mapping[tuple[str, str], str], found: Naming
) -> None:
    for lead in root.leads:
        for other in roots:
            below = lead.target.removeprefix(f"{other.real.rstrip('/')}/")
            if other.real and below != lead.target:
                path = paths.get((clean(other.path, LIMIT), below.partition("/")[0]))
                if path is not None:
                    found.add(path, f"{lead.name} leads to it")


def _named_in(file: Listed, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the saves that a small file names, by a path to them or by their step."""
    text = (file.content or b"").decode("utf-8", "replace")
    parts = {part for word in text.replace('"', " ").split() for part in word.split("/")}
    yield from (name for name in names if name in parts)
    step = number(text.strip()) if _NAMES_STEP.fullmatch(file.path) else None
    if step is not None:
        yield from (name for name in names if _step_of(name) == step)


def _step_of(name: str) -> int | None:
    """Return the last number in a name that has one."""
    digits = "".join(char if char.isdigit() else " " for char in name).split()
    return number(digits[-1]) if digits else None


def _by_states(root: Root, names: Mapping[str, str], found: Naming) -> None:
    """Note the best checkpoint that a trainer's state names, or that one cannot be read.

    One that only names itself was the best when it was saved: that says nothing of now.
    """
    states = [(folder.name, folder.by_path.get(TRAINER_STATE)) for folder in root.folders]
    states += [("", file) for file in root.names if file.path == TRAINER_STATE]
    for of, file in states:
        if file is None:
            continue
        where = f"{of}/{TRAINER_STATE}".lstrip("/")
        problem = file.error or (None if file.state is None else file.state.problem)
        if problem is not None:
            found.unknown[clean(root.path, LIMIT)] = f"the best one is unknown: {where} {problem}"
        elif file.state is not None:
            _best(file.state.best, of, where, names, found)
    for file in root.files:
        best = None if file.inside is None else file.inside.best
        _best(best, file.path, file.path, names, found)


def _best(best: str | None, of: str, where: str, names: Mapping[str, str], found: Naming) -> None:
    name = (best or "").rstrip("/").rpartition("/")[2]
    if name in names and name != of and names[name] not in found.best:
        found.best.add(names[name])
        found.add(names[name], f"the trainer's best, by {where}")


REJECTED: Final = re.compile(r"(?P<marker>[^/]+)\.rejected-(?P<day>\d{4}-\d\d-\d\d)(?:-\d{1,3})?")
DELETING: Final = re.compile(r"(?P<marker>[^/]+)\.deleting-(?P<plan>[0-9a-f]{6,64})")
NO_MARKER: Final = "checkpoint"
"""What stands for the marker in the name of a note where a checkpoint has none."""


class Aside(NamedTuple):
    """What was moved aside in a folder, and why it is not complete."""

    name: str
    deleting: bool
    note: str


def rejected_name(marker: str, at: float, count: int = 1) -> str:
    """Return what a marker is called once it is moved aside, at an instant."""
    day = datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")
    return f"{marker}.rejected-{day}{f'-{count}' if count > 1 else ''}"


def deleting_name(marker: str | None, plan: str) -> str:
    """Return what the note about a deletion is called."""
    return f"{marker or NO_MARKER}.deleting-{plan}"


def aside_in(folder: Folder) -> Aside | None:
    """Return what says that a checkpoint was rejected or is being deleted, if anything does.

    What was written after it is a new save under the same name: then it says nothing any more.
    """
    found = [file for file in folder.files if file.size and _is_note(file.path)]
    note = max(found, key=lambda file: (file.mtime, file.path), default=None)
    if note is None:
        return None
    gone = DELETING.fullmatch(note.path)
    match = gone or REJECTED.fullmatch(note.path)
    if match is None or _later(folder, note.mtime, match["marker"]):
        return None
    if gone is not None:
        return Aside(note.path, True, f"half deleted by a clean-up ({note.path})")
    return Aside(note.path, False, f"rejected: its marker file was moved aside ({note.path})")


def _is_note(path: str) -> bool:
    return REJECTED.fullmatch(path) is not None or DELETING.fullmatch(path) is not None


def _later(folder: Folder, at: float, marker: str) -> bool:
    """Tell of a file written after the note, but for the marker, which is replaced on its way."""
    files = (file for file in folder.files if file.path != marker and not _is_note(file.path))
    return any(file.mtime > at for file in files)
