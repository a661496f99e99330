"""Whether a folder that is not there may simply be made, or a disk is missing. Blocking."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

FSTAB: Final = Path("/etc/fstab")
HOLDS_DISKS: Final = ("/", "/mnt", "/media", "/run/media", "/net", "/Volumes")
"""Folders whose subfolders are disks: of what is missing there nobody can tell what it was."""


class Missing(NamedTuple):
    """Why a folder should not be made just so; ``sure``: the disk is known and not mounted."""

    text: str
    sure: bool


def missing_disk(path: Path, fstab: Path = FSTAB) -> Missing | None:
    """Return the disk on which a missing folder should lie, if that may be what is missing."""
    for point in _listed(fstab):
        if path.is_relative_to(point) and not os.path.ismount(point):
            return Missing(f"the disk at {point} is not mounted", sure=True)
    above = nearest(path)
    if str(above) in HOLDS_DISKS or str(above.parent) in ("/media", "/run/media"):
        return Missing(f"it would be made in {above}: look whether a disk is missing", sure=False)
    return None


def nearest(path: Path) -> Path:
    """Return the nearest that is there of the folders above a path."""
    return next((each for each in path.parents if os.path.lexists(each)), Path("/"))


def _listed(fstab: Path) -> Iterator[Path]:
    """Yield where this machine's disks are to be mounted; the root is always there."""
    lines: list[str] = []
    with suppress(OSError):
        lines = fstab.read_text(encoding="utf-8", errors="replace").splitlines()
    for words in (line.split() for line in lines):
        if len(words) > 1 and not words[0].startswith("#") and words[1].startswith("/"):
            point = Path(words[1].replace("\\040", " "))
            if point != Path("/"):
                yield point
