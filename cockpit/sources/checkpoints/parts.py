"""Which part of a checkpoint of many files is missing, by what its own files say (SPEC K)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cockpit.sources.checkpoints.listing import ZERO_SHARD, Folder, Root

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
        described = {f"{place}{name}" for name in (".metadata", "metadata.json", "metadata.pkl")}
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


def missing_ranks(paths: Iterable[str], pattern: re.Pattern[str]) -> bool:
    """Return True when the ranks in file names are not 0, 1, 2 … without a gap."""
    groups: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        match = pattern.fullmatch(path)
        if match is not None:
            head, digits, tail = match.groups()
            groups.setdefault((head, tail), set()).add(int(digits))
    return any(ranks != set(range(len(ranks))) for ranks in groups.values())
