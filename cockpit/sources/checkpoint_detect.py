"""Which layout a root has: the one asked for, or the one that its names and markers tell."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.sources.checkpoint_layouts import LAYOUTS, Finding, Grade, Layout, is_single
from cockpit.sources.checkpoint_listing import Folder, Root, read_marker

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
    """Return the layout that a folder's name and files speak for, the most telling sign first."""
    named = {name for name, layout in LAYOUTS.items() if layout.pattern.fullmatch(folder.name)}
    marker = folder.by_path.get("metadata.json")
    stepped = marker is not None and read_marker(marker).step is not None
    committed = bool({"_CHECKPOINT_METADATA", "commit_success.txt"} & folder.top)
    sharded = ".metadata" in folder.top or any(path.endswith(".distcp") for path in folder.by_path)
    signs = {
        "lightning": folder.single and "lightning" in named,
        "nanogpt": folder.single and "nanogpt" in named,
        "megatron": "megatron" in named and not stepped,
        "orbax": ".orbax-checkpoint-tmp" in folder.name or ("orbax" in named and committed),
        "torchtitan": "torchtitan" in named and sharded,
        "deepspeed": "deepspeed" in named and not stepped,
        "hf": ("hf" in named or folder.name.startswith("tmp-checkpoint-")) and not stepped,
        "levanter": stepped or "levanter" in named,
    }
    return next((name for name, fits in signs.items() if fits), None)


def single_files(root: Root) -> tuple[Folder, ...]:
    """Return the files of ``root`` that are checkpoints by themselves, as folders of one."""
    return tuple(
        Folder(file.path, (file,), file.mtime, single=True)
        for file in root.files
        if is_single(file.path)
    )
