"""A log that is a file of this machine. Nothing is kept open between two looks."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cockpit.model.place import FILE, Place
from cockpit.runtime.process import WRITTEN_FILES
from cockpit.runtime.regular import open_regular
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Stat, Wish
from cockpit.sources.logs.renamed import goes_on_in


class LocalLog(Ranged):
    """A file, by its path, or the newest of those that a pattern matches."""

    def __init__(self, path: str | Path) -> None:
        self.place = Place(FILE, "", str(path))

    @contextmanager
    def open(self, wish: Wish = NOTHING) -> Iterator[Opened]:
        """Open the file anew, so that a rotated or replaced one is simply the new one."""
        with open_regular(self.place.path) as (fd, status):
            yield _OpenFile(fd, status)

    def newest(self) -> LocalLog:
        """Return the newest file that matches a path or glob; itself if none does."""
        found = newest_match(self.place.path)
        return self if found == self.place.path else LocalLog(found)

    def beside(self, prefix: str) -> list[tuple[Ranged, Stat]]:
        """Return the files of its folder whose names begin so."""
        found: list[tuple[Ranged, Stat]] = []
        for path in Path(self.place.path).parent.glob(f"{glob.escape(prefix)}*"):
            with suppress(OSError):
                found.append((LocalLog(path), stat_of(path.stat())))
        return found

    def renamed(self) -> LocalLog | None:
        """Return where its writer goes on, by the open files of all processes that can be seen."""
        path = Path(self.place.path)
        real = str(Path(os.path.realpath(path.parent)) / path.name)
        found = goes_on_in(real, WRITTEN_FILES.now())
        return None if found is None else LocalLog(found)


class _OpenFile(Opened):
    def __init__(self, fd: int, status: os.stat_result) -> None:
        self._fd = fd
        self.stat = stat_of(status)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if the file has become shorter."""
        parts = []
        while start < end:
            data = os.pread(self._fd, end - start, start)
            if not data:
                break
            parts.append(data)
            start += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def stat_of(status: os.stat_result) -> Stat:
    """Return what the kernel says of a file."""
    return Stat(
        status.st_size,
        status.st_mtime,
        (status.st_dev, status.st_ino),
        (status.st_ino, status.st_size, status.st_mtime_ns),
    )


def newest_match(pattern: str) -> str:
    """Return the newest file that matches a path or glob; the path itself if none does."""
    if not glob.has_magic(pattern) or (path := Path(pattern)).exists():
        return pattern
    found: list[tuple[float, str]] = []
    for match in Path(path.anchor).glob(str(path.relative_to(path.anchor))):
        with suppress(OSError):  # gone since it was listed
            found.append((match.stat().st_mtime, str(match)))
    return max(found)[1] if found else pattern
