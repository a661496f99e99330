"""What the files of one checkpoint say: whole, unfinished, or in doubt. What all layouts share.

How each framework writes and what marks its saves whole stands in ``layouts.py``, a row each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.sources.checkpoints.listing import Folder, Listed, Root
from cockpit.sources.checkpoints.parts import partial


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
    if pointer is None or pointer.content is None:
        return None
    named = pointer.content.decode("utf-8", "replace").strip()
    if named in folder.top:
        return None
    return f"cannot be resumed: its latest names {named or 'nothing'}, which is not in it"


_MARKS: Final = (".complete", "_COMPLETE", "COMPLETE", "_COMMITTED")
"""Names of files by which people mark a save whole, after everything else is written."""


def without_mark(finding: FolderFinding, folder: Folder, root: Root) -> FolderFinding:
    """Return that it is not known whether a save is whole if only the others have such a mark."""
    why = missing_beside(folder, root.inside, _MARKS)
    return finding if why is None else doubtful(why, finding.marker)


def missing_beside(folder: Folder, there: Collection[str], names: Iterable[str]) -> str | None:
    """Return which of ``names`` is missing here that is ``there``: directly in another save."""
    missing = (name for name in names if name not in folder.top and name in there)
    found = next(missing, None)
    return None if found is None else f"no {found}, which the other saves have"
