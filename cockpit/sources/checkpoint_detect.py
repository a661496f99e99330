"""Which layout a root has: the one asked for, or the one that its names and markers tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.sources.checkpoint_layouts import LAYOUTS, Finding, Grade, Layout
from cockpit.sources.checkpoint_listing import Folder, Listed, Root
from cockpit.sources.checkpoint_marker import read_marker

NAMES: Final = ("auto", *LAYOUTS, "custom")


def chosen_layout(spec: CheckpointSpec) -> Layout | None:
    """Return the layout that ``spec`` names, ``None`` for ``auto``.

    Raises ``ValueError`` with one line for an unknown name or a pattern that cannot be used.
    """
    if spec.custom is not None and spec.layout in ("auto", "custom"):
        return _custom(spec.custom)
    if spec.layout == "auto":
        return None
    if spec.layout in LAYOUTS:
        return LAYOUTS[spec.layout]
    if spec.layout == "custom":
        raise ValueError('layout "custom" needs a pattern and a marker')
    near = get_close_matches(spec.layout, NAMES, 1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise ValueError(f'unknown layout "{spec.layout}"; expected one of {", ".join(NAMES)}{hint}')


def _custom(custom: CustomLayout) -> Layout:
    try:
        pattern = re.compile(custom.pattern)
    except re.error as error:
        raise ValueError(f"custom pattern is not a regular expression: {error}") from error
    if pattern.groups < 1:
        raise ValueError("custom pattern needs one group that holds the step")

    def assess(folder: Folder, root: Root) -> Finding | None:
        marker = folder.by_path.get(custom.marker)
        if marker is None:
            return Finding(Grade.UNFINISHED, f"no {custom.marker}")
        said = read_marker(marker) if marker.path.endswith(".json") else None
        return Finding(Grade.COMPLETE, None, marker, said.step if said is not None else None)

    return Layout("custom", pattern, custom.marker, assess)


def layout_of(root: Root) -> Layout:
    """Return the layout with most folders in ``root``; Levanter's when nothing tells."""
    votes = {name: 0 for name in LAYOUTS}
    for folder in (*root.folders, *single_files(root)):
        name = _vote(folder)
        if name is not None:
            votes[name] += 1
    best = max(votes, key=lambda name: votes[name])
    return LAYOUTS[best]


def _vote(folder: Folder) -> str | None:
    for name, speaks in _SIGNS.items():
        if speaks(folder):
            return name
    return None


def _has_step_metadata(folder: Folder) -> bool:
    marker = folder.by_path.get("metadata.json")
    return marker is not None and read_marker(marker).step is not None


def _named(name: str, folder: Folder) -> bool:
    return LAYOUTS[name].pattern.fullmatch(folder.name) is not None


def _is_orbax(folder: Folder) -> bool:
    if ".orbax-checkpoint-tmp" in folder.name:
        return True
    signs = {"_CHECKPOINT_METADATA", "commit_success.txt"} & folder.top
    return bool(signs) and _named("orbax", folder)


def _is_torch(folder: Folder) -> bool:
    shards = any(path.endswith(".distcp") for path in folder.by_path)
    return _named("torchtitan", folder) and (shards or ".metadata" in folder.top)


def _is_hugging_face(folder: Folder) -> bool:
    named = _named("hf", folder) or folder.name.startswith("tmp-checkpoint-")
    return named and not _has_step_metadata(folder)


def _is_named(name: str) -> Callable[[Folder], bool]:
    return lambda folder: _named(name, folder) and not _has_step_metadata(folder)


def _is_file(name: str) -> Callable[[Folder], bool]:
    return lambda folder: folder.single and _named(name, folder)


def _is_levanter(folder: Folder) -> bool:
    return _has_step_metadata(folder) or _named("levanter", folder)


_SIGNS: Final[dict[str, Callable[[Folder], bool]]] = {
    "lightning": _is_file("lightning"),
    "nanogpt": _is_file("nanogpt"),
    "megatron": _is_named("megatron"),
    "orbax": _is_orbax,
    "torchtitan": _is_torch,
    "deepspeed": _is_named("deepspeed"),
    "hf": _is_hugging_face,
    "levanter": _is_levanter,
}
"""Most telling first: a folder votes for the first layout that it fits."""


def single_files(root: Root) -> tuple[Folder, ...]:
    """Return the files of ``root`` that are checkpoints by themselves, as folders of one."""
    return tuple(_as_folder(file) for file in root.files if _is_single(file))


def _is_single(file: Listed) -> bool:
    patterns = (LAYOUTS["lightning"].pattern, LAYOUTS["nanogpt"].pattern)
    return any(pattern.fullmatch(file.path) for pattern in patterns)


def _as_folder(file: Listed) -> Folder:
    return Folder(file.path, (file,), file.mtime, single=True)
