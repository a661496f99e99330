"""What is mounted: whether a missing folder is a missing disk, which disks machines share.

Blocking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

FSTAB: Final = Path("/etc/fstab")
MOUNTS: Final = Path("/proc/self/mounts")
OWN: Final = ("localhost", "localhost.localdomain", "[::1]", "::1")
"""A server of these names is each machine's own."""
HOLDS_DISKS: Final = ("/", "/mnt", "/media", "/run/media", "/net", "/Volumes")
"""Folders whose subfolders are disks: of what is missing there nobody can tell what it was."""
_OCTAL: Final = re.compile(r"\\(0[0-7]{2}|1[0-7]{2})")


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
        return Missing(f"it would be made in {above}: check whether a disk is missing", sure=False)
    return None


def shared_source(source: str) -> str | None:
    """Return what a network file system is mounted from; ``None`` for a disk of one machine.

    NFS and Lustre name ``server:/export``, CIFS ``//server/share``: on every machine the same.
    """
    server, sign, path = source.partition(":/")
    if source.startswith("//"):
        server, path = source[2:].partition("/")[::2]
    elif not sign:
        return None
    own = server.lower() in OWN or server.startswith(("/", "127."))
    return None if own or not server or not (path or sign) else source


def source_of(mount: str, mounts: Path = MOUNTS) -> str | None:
    """Return what is mounted at a folder of this machine, ``None`` where that is not known."""
    found = None
    with suppress(OSError):
        for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
            source, _, rest = line.partition(" ")
            if _plain(rest.partition(" ")[0]) == mount:
                found = _plain(source)  # the last one mounted there lies on top
    return found


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


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
