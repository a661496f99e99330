"""One save of many files beside each other (ranks, shards): put together, and judged as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from cockpit.sources.checkpoints.findings import (
    FolderFinding,
    Grade,
    doubtful,
    one_file,
    unfinished,
)
from cockpit.sources.checkpoints.listing import Folder, Listed, Root

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
