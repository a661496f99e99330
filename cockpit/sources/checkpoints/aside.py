"""Markers that a cockpit has moved aside where folders cannot be renamed (SPEC A-4, A-6). Pure.

``metadata.json.rejected-2026-03-11``: the marker of a rejected checkpoint, which its trainer
skips for that; put back under its name it is whole again. ``metadata.json.deleting-<plan>``: what
is being deleted, written before the first key goes; such a checkpoint is never complete. An empty
one says nothing: what it was written for was refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from cockpit.sources.checkpoints.listing import Folder

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
