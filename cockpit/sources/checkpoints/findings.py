"""What the files of one checkpoint say: whole, unfinished, or in doubt."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.listing import ZERO_SHARD, Folder, Listed, Root
from cockpit.sources.checkpoints.parts import part_of

_NTH: Final = re.compile(r"(.*?)-?(\d{2,})-of-(\d{2,})(\.\w+)")
_SHARD: Final = re.compile(r"((?:.*/)?)[^/]*\.distcp")
_OPTIMIZER, _MODEL = "optim_states.pt", "model_states.pt"


def partial(folder: Folder) -> str | None:
    """Return which part is missing of what its own names say that there must be."""
    parts: dict[tuple[str, int, str], set[int]] = {}
    for name in folder.by_path:
        if nth := _NTH.fullmatch(name):
            parts.setdefault((nth[1], int(nth[3]), nth[4]), set()).add(int(nth[2]))
    for (name, count, suffix), there in parts.items():
        if len(there) < count:
            return f"{len(there)} of {count} parts of {name}{suffix}"
    shards = {found[1] for name in folder.by_path if (found := _SHARD.fullmatch(name))}
    for place in sorted(shards):
        described = {f"{place}{name}" for name in (".metadata", "metadata.pkl")}
        if not described & folder.by_path.keys():
            return f"no {place}.metadata"
    if (short := _zero_short(folder)) is not None:
        return short
    states = [name for name in folder.by_path if name.endswith((_OPTIMIZER, _MODEL))]
    if states and not any(name.endswith(_MODEL) for name in states):
        return "no model states beside the optimizer's"
    return None


def zero_ranks(folder: Folder) -> dict[str, set[int]]:
    """Return which ranks have written their part of DeepSpeed's optimizer, by its other words."""
    found: dict[str, set[int]] = {}
    for name in folder.by_path:
        if match := ZERO_SHARD.fullmatch(name):
            found.setdefault(f"{match[1]}{match[3]}", set()).add(int(match[2]))
    return found


def _zero_short(folder: Folder) -> str | None:
    """Return how many of the parts are there that a part says the optimizer was cut into."""
    told = (file.inside.parts for file in folder.files if file.inside is not None)
    count = max((parts for parts in told if parts is not None), default=0)
    for there in zero_ranks(folder).values():
        if len(there) < count:
            rank = min(set(range(count)) - there)
            return f"{len(there)} of {count} parts of the optimizer (rank {rank} is missing)"
    return None


def unconfirmed(folder: Folder, root: Root) -> str | None:
    """Return why it is not known how many parts there must be, where that is so.

    A part of the optimizer says it; else another save from as many ranks bears it out.
    """
    ranks = zero_ranks(folder)
    if not ranks or any(file.inside is not None and file.inside.parts for file in folder.files):
        return None
    if any(zero_ranks(other) == ranks for other in root.folders if other.name != folder.name):
        return None
    return "cannot tell how many ranks have saved, so completeness is unknown"


def missing_ranks(paths: Iterable[str], pattern: re.Pattern[str], *, alike: bool = False) -> bool:
    """Return True when the ranks in file names are not 0, 1, 2 … without a gap.

    ``alike``: each of them writes the same files.
    """
    groups: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        match = pattern.fullmatch(path)
        if match is not None:
            head, digits, tail = match.groups()
            groups.setdefault((head, tail), set()).add(int(digits))
    most = max(map(len, groups.values()), default=0) if alike else None
    return any(ranks != set(range(most or len(ranks))) for ranks in groups.values())


class Grade(Enum):
    """What the files alone say; age and the job's state decide the rest.

    ``EMPTIED`` has its marker and no data: whoever writes the marker last does not write it now.
    ``AHEAD`` is whole by its own files, but newer than what its root's pointer names.
    """

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    EMPTIED = "emptied"
    DOUBTFUL = "doubtful"
    AHEAD = "ahead"


@dataclass(frozen=True)
class FolderFinding:
    """The judgement of one folder; ``step`` and ``stamp`` are what its marker says.

    ``named``: the root's pointer (a file or a link) leads to it. ``files``: of how many files in
    the root it is one save.
    """

    grade: Grade
    note: str | None = None
    marker: Listed | None = None
    step: int | None = None
    stamp: float | None = None
    permanent: bool | None = None
    named: bool = False
    files: int = 1


Assess = Callable[[Folder, Root], FolderFinding | None]
"""Judges a folder of a layout; ``None`` for one that is no checkpoint."""


def unfinished(note: str, marker: Listed | None = None) -> FolderFinding:
    """Return that something is missing, and what."""
    return FolderFinding(Grade.UNFINISHED, note, marker)


def doubtful(note: str, marker: Listed | None = None) -> FolderFinding:
    """Return that the files do not tell, and why."""
    return FolderFinding(Grade.DOUBTFUL, note, marker)


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


def with_data(finding: FolderFinding, folder: Folder) -> FolderFinding:
    """Return the finding of a folder that has its marker; one without data is not complete."""
    why = lacking(folder, finding.marker)
    if why is None:
        return finding
    return replace(finding, grade=Grade.EMPTIED, note=why)


def by_file(*names: str) -> Assess:
    """Complete when one of ``names`` lies in the folder and is not empty."""

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        marker = next((folder.by_path[name] for name in names if name in folder.by_path), None)
        if marker is None:
            return unfinished(f"no {names[0]}")
        if marker.size == 0:
            return unfinished(f"{marker.path} is empty", marker)
        return with_data(FolderFinding(Grade.COMPLETE, None, marker), folder)

    return assess


def one_file(folder: Folder) -> FolderFinding | None:
    """Judge a save that is one file: only a cut-off zip can be told from its bytes."""
    file = folder.files[0] if folder.single and folder.files else None
    if file is None:
        return None
    if file.size == 0:
        return unfinished("the file is empty")
    ends = file.content or b""  # its first 4 and last 22 bytes; torch.save writes a zip
    if ends[:4] == b"PK\x03\x04" and b"PK\x05\x06" not in ends[4:]:
        return unfinished("the file is truncated")
    inside = file.inside
    return FolderFinding(Grade.COMPLETE, _about_step(file), file, inside.step if inside else None)


def _about_step(file: Listed) -> str | None:
    """Return why the file itself tells no step, where that is so, and the epoch if it does."""
    inside = file.inside
    if inside is None or inside.step is not None:
        return None
    epoch = f"; epoch {inside.epoch}" if inside.epoch is not None else ""
    return f"{inside.problem or 'its step is unknown'}{epoch}"


def whole_file(folder: Folder) -> FolderFinding | None:
    """Judge one file of a layout of one's own: its step may be in its name, or inside."""
    found = one_file(folder)
    if found is None or found.marker is None or found.step is not None:
        return found
    return replace(found, note=None)


def torch_file(folder: Folder) -> FolderFinding | None:
    """Judge one file of torch whose name tells no step."""
    found = one_file(folder)
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


def ends_as_json(marker: Listed) -> bool:
    """Tell whether a JSON document is there up to its end; one that was not fetched may be."""
    return marker.content is None or marker.content.rstrip().endswith(b"}")


def inner_pointer(folder: Folder) -> str | None:
    """Return what is wrong with the file ``latest`` inside a save, by which DeepSpeed loads it."""
    pointer = folder.by_path.get("latest")
    names = {"latest", "latest_universal"} & folder.top
    if not names and any(map(_DEEPSPEED_TAG.fullmatch, folder.top)):
        return "cannot be resumed: no latest, by which DeepSpeed finds its states"
    if pointer is None or pointer.content is None:
        return None
    named = pointer.content.decode("utf-8", "replace").strip()
    if named in folder.top:
        return None
    return f"cannot be resumed: its latest names {named or 'nothing'}, which is not in it"


_DEEPSPEED_TAG: Final = late_regex(r"global_step\d+")
_MARKS: Final = (".complete", "_COMPLETE", "COMPLETE", "_COMMITTED")
"""Names of files by which people mark a save whole, after everything else is written."""


def without_mark(finding: FolderFinding, folder: Folder, root: Root) -> FolderFinding:
    """Return that it is not known whether a save is whole if only the others have such a mark."""
    why = missing_beside(folder, root.inside, _MARKS)
    return finding if why is None else doubtful(why, finding.marker)


_WEIGHTS: Final = ("", "model", "net", "weights")


def with_kin(finding: FolderFinding, folder: Folder, root: Root) -> FolderFinding:
    """Return the finding of a save whose parts are saves, or files, of their own in the root.

    It is not known to be whole without a part that all other saves have, and one of several files
    is not deleted by halves.
    """
    common, own, digits = part_of(folder.name)
    kin = root.kin.get(common, {})
    others = kin.get(own, {}).keys() - {digits}
    for part, numbers in kin.items():
        needed = part != own and (own or part not in _WEIGHTS)  # a whole save needs no export
        if needed and digits not in numbers and len(others) > 1 and others <= numbers.keys():
            like = next(iter(numbers.values()))
            return doubtful(f"no {part or 'other part'} of it, as {like} is of another save")
    loose = {each.name for each in root.lookalikes if each.single}
    beside = sum(numbers.get(digits) in loose for numbers in kin.values())
    return replace(finding, files=max(finding.files, 1 + beside)) if folder.single else finding


def missing_beside(folder: Folder, there: Collection[str], names: Iterable[str]) -> str | None:
    """Return which of ``names`` is missing here that is ``there``: directly in another save."""
    missing = (name for name in names if name not in folder.top and name in there)
    found = next(missing, None)
    return None if found is None else f"no {found}, which the other saves have"


_NUMBER_OF_PART: Final = re.compile(
    r"(?:(?<=rank)|(?<=rank[-_])|(?<=shard)|(?<=shard[-_])|(?<=part[-_]))\d+|\d+(?=-of-\d+)"
)
_OF: Final = re.compile(r"\*-of-(\d+)")
_RANK_FOLDER: Final = re.compile(r"(?:[a-z]+_)?(?:rank|shard)_\d+(?:_[a-z]+_rank_\d+)*")


def save_and_part(path: str) -> tuple[str, str]:
    """Return which save a file is a part of, and which part: both empty for a save of its own."""
    numbers = [str(int(number)) for number in _NUMBER_OF_PART.findall(path)]
    return (_NUMBER_OF_PART.sub("*", path), ".".join(numbers)) if numbers else ("", "")


def put_together(files: Iterable[Listed]) -> tuple[Folder, ...]:
    """Return saves that are files in a root, those of many files (ranks, shards) as one each."""
    saves: dict[str, dict[str, Listed]] = {}
    for file in files:
        save, part = save_and_part(file.path)
        saves.setdefault(save or file.path, {})[part] = file
    found = []
    for parts in saves.values():
        ordered = [parts[part] for part in sorted(parts)]
        times = max(file.mtime for file in ordered)
        known = frozenset(part for part in parts if part)
        found.append(Folder(ordered[0].path, tuple(ordered), times, single=True, parts=known))
    return tuple(found)


def with_parts(finding: FolderFinding, folder: Folder, root: Root) -> FolderFinding:
    """Return the finding of a save of many files: whole if each of them is, and all are there."""
    for file in folder.files[1:]:
        other = one_file(replace(folder, files=(file,)))
        if other is not None and other.grade is not Grade.COMPLETE:
            return replace(other, note=f"{file.path}: {other.note}")
    missing = missing_part(folder, root)
    if missing is not None:
        return unfinished(missing)
    alone = not any(each.parts for each in root.singles if each.name != folder.name)
    if alone and len(folder.parts) > 1:
        return doubtful("there is no other save to tell how many parts there must be")
    return finding


def missing_part(folder: Folder, root: Root) -> str | None:
    """Return which part is missing of a save of many files, by its neighbours and by itself."""
    mine = folder.parts
    save = save_and_part(folder.name)[0]
    own, of = save.count("*"), _OF.search(save)
    others = [
        each.parts
        for each in root.singles
        if each.parts and each.name != folder.name and save_and_part(each.name)[0].count("*") == own
    ]
    most = max(others, key=len, default=frozenset())
    wanted = {*most} if most - mine and mine not in others else _full(mine)
    if of is not None and own == 1:
        first = 0 if "0" in mine else 1
        wanted = {str(number) for number in range(first, first + min(int(of[1]), MOST))}
    missing = sorted(wanted - mine, key=_numbers)
    if not missing:
        return None
    return f"{len(mine)} of {len(wanted | mine)} parts of one save (part {missing[0]} is missing)"


def _full(parts: Iterable[str]) -> set[str]:
    """Return all parts there must be, each number counted from 0 or 1 without a gap."""
    known = [_numbers(part) for part in parts]
    ranges = [range(min(1, min(each)), max(each) + 1) for each in zip(*known, strict=False)]
    size = 1
    for each in ranges:
        size *= len(each)
    return {".".join(map(str, each)) for each in product(*ranges)} if size <= MOST else set()


MOST: Final = 100_000


def _numbers(part: str) -> tuple[int, ...]:
    return tuple(map(int, part.split(".")))


def merged_ranks(roots: Sequence[Root], given: str) -> list[Root]:
    """Return the roots, the folders of one rank each (``mp_rank_00``) as one root above them.

    ``given`` is the path that was asked for: no root lies above it.
    """
    found: list[Root] = []
    above: dict[str, int] = {}
    for root in roots:
        parent, _, name = root.path.rpartition("/")
        if root.path == given or _RANK_FOLDER.fullmatch(name) is None or root.folders:
            found.append(root)
            continue
        files = tuple(replace(file, path=f"{name}/{file.path}") for file in root.files)
        if parent in above:
            former = found[above[parent]]
            found[above[parent]] = replace(former, files=(*former.files, *files))
        else:
            above[parent] = len(found)
            found.append(replace(root, path=parent, files=files, lookalikes=()))
    return found
