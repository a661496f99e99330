"""Which layout the saves of a root are of: the one asked for, or what its names and files tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from cockpit.model.run import CheckpointSpec, CustomLayout
from cockpit.sources.checkpoints.findings import FolderFinding, Grade, lacking, whole_file
from cockpit.sources.checkpoints.layouts import LAYOUTS, Layout, is_single, is_sure
from cockpit.sources.checkpoints.listing import Folder, Listed, Root, read_marker
from cockpit.sources.checkpoints.shards import put_together

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

    def assess(folder: Folder, root: Root) -> FolderFinding | None:
        if folder.single:
            return whole_file(folder)
        marker = folder.by_path.get(custom.marker)
        if marker is None:
            return FolderFinding(Grade.UNFINISHED, f"no {custom.marker or 'marker'}")
        said = read_marker(marker) if marker.path.endswith(".json") else None
        step = said.step if said is not None else None
        why = None if _WEIGHTS.fullmatch(custom.marker) else lacking(folder, marker)
        if why is not None:
            return FolderFinding(Grade.EMPTIED, why, marker, step)
        return FolderFinding(Grade.COMPLETE, None, marker, step)

    return Layout("custom", pattern, custom.marker, assess, lambda folder, root: False, {})


_WEIGHTS: Final = re.compile(r".*\.(?:pt|pth|bin|safetensors|ckpt|npz|npy|h5|hdf5|msgpack|pkl)")
"""Markers that are themselves what is loaded."""


def with_singles(root: Root, layout: Layout | None) -> Root:
    """Return a root with its files that are saves, those of many files as one each."""
    own = layout.pattern if layout is not None and layout.name == "custom" else None

    def counts(file: Listed) -> bool:
        if own is not None and own.fullmatch(file.path):
            return True
        return is_single(file.path.rpartition("/")[2])

    return replace(root, singles=put_together(file for file in root.files if counts(file)))


def layout_of(root: Root, votes: Mapping[int, str | None]) -> Layout | None:
    """Return the layout of most saves in ``root``, ``None`` when nothing there tells one.

    ``votes`` are what each save speaks for, by its identity.
    """
    files = [file for file in root.singles if is_sure(file.name.rpartition("/")[2])]
    # best.pt may lie beside anything; so may what no name tells
    for voting in ((*root.folders, *files), (*root.singles, *root.lookalikes)):
        count = Counter(votes[id(each)] for each in voting)
        best = max(LAYOUTS, key=lambda name: count[name])
        if count[best]:
            return LAYOUTS[best]
    return None


def layout_by_files(folder: Folder, root: Root) -> str | None:
    """Return the layout that a save's name and files speak for, the most telling sign first."""
    fitting = (name for name, row in LAYOUTS.items() if row.recognises(folder, root))
    return next(fitting, None)
