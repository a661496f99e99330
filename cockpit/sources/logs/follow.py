r"""What is new in a log since the last look: through rotation, truncation and replacement.

A log that is written faster than it can be read is read from near its end: what was skipped is
told by its range.

Only complete states count as new: text that ends in a line break or, as progress bars do it,
in ``\r``; what is written behind the last of them is told apart. Nothing is kept open between
two looks.
"""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.runtime.regular import open_regular
from cockpit.sources.logs.lines import line_start, lines_before, read_at

FIRST: Final = 16_384
"""Bytes at the end of the file that the first look reads (some hundred lines, times 1,000 runs)."""
MOST: Final = 2_097_152
"""Bytes that one look reads at most; the rest follows at the next."""
_GUARD: Final = 64
_BREAKS = re.compile(rb"[\r\n]+")


class News(NamedTuple):
    """One look at a log: its new states (oldest first), its last lines, size, mtime, inode.

    ``first`` tells that the states come from the first look: they may be old.
    """

    states: tuple[bytes, ...]
    tail: tuple[bytes, ...]
    size: int
    mtime: float
    inode: int
    first: bool
    starts: tuple[int, ...] = ()
    """Where each line of ``tail`` starts; the last one ends at ``size``."""
    skipped: tuple[int, int] | None = None
    """The bytes ``[begin, end)`` of the file right before the states that were not read."""
    rest: bytes = b""
    """What stands behind the last line break: half a line, or the newest state of a bar."""


class Follower:
    """Follows one path. Blocking; raises ``OSError``.

    It remembers where it was and the last bytes before that place. If they are no longer
    there, the file was truncated or rewritten and is read from its beginning, whatever its
    inode says (an inode is soon reused).
    """

    def __init__(self, path: str, from_start: bool = False, whole: int = FIRST) -> None:
        """``whole``: a first look reads all of a file of up to so many bytes."""
        self.path = path
        self._whole = whole
        self._inode: tuple[int, int] | None = (0, 0) if from_start else None
        self._offset = 0
        self._guard = b""
        self._rest = b""
        self.begin = 0
        """The offset in the first file from which all states were read."""
        self._status: tuple[int, int, int] | None = None
        self._behind = False
        self._limit: int | None = None
        self._skipped: tuple[int, int] | None = None

    def look(self, tail: int, limit: int | None = None) -> News | None:
        """Return what is new and the last ``tail`` lines; ``None`` if nothing has changed.

        Of more than ``limit`` bytes only the newest are read, and the others are skipped.
        """
        self._limit, self._skipped = limit, None
        with open_regular(self.path) as (fd, status):
            key = (status.st_ino, status.st_size, status.st_mtime_ns)
            if key == self._status and not self._behind:
                return None
            first = self._inode is None
            states = self._advance(fd, status)
            lines = lines_before(fd, status.st_size, tail)
            self._status = key
        shown = tuple(line.data for line in lines)
        starts = tuple(line.start for line in lines)
        size, mtime, inode = status.st_size, status.st_mtime, status.st_ino
        skipped, rest = self._skipped, self._rest
        return News(states, shown, size, mtime, inode, first, starts, skipped, rest)

    def _advance(self, fd: int, status: os.stat_result) -> tuple[bytes, ...]:
        inode = (status.st_dev, status.st_ino)
        states: tuple[bytes, ...] = ()
        if self._inode is None:
            small = status.st_size <= self._whole
            self._offset = 0 if small else line_start(fd, status.st_size - FIRST, status.st_size)
            self.begin = self._offset
            self._skipped = (0, self.begin) if self.begin else None
        elif self._inode != inode:
            states = self._rest_of_former(self._inode)
            self._offset, self._guard = 0, b""
        elif not self._unbroken(fd, status.st_size):
            self._offset, self._guard = 0, b""
        self._inode = inode
        return states + self._read(fd, status.st_size)

    def _unbroken(self, fd: int, size: int) -> bool:
        """Tell whether the file still continues from where we were."""
        start = self._offset - len(self._guard)
        return size >= self._offset and read_at(fd, start, self._offset) == self._guard

    def _read(self, fd: int, size: int) -> tuple[bytes, ...]:
        if self._limit is not None and size - self._offset > self._limit:
            self._skip_to(fd, max(self._offset, line_start(fd, size - self._limit, size)))
        data = read_at(fd, self._offset, min(size, self._offset + MOST))
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._behind = len(data) == MOST
        if end == 0 and self._behind:
            end = MOST
        self._offset += end
        self._rest = b"" if self._behind else data[end:]
        if end:
            self._guard = (self._guard + data[:end])[-_GUARD:]
        return tuple(state for state in _BREAKS.split(data[:end]) if state)

    def _skip_to(self, fd: int, offset: int) -> None:
        if offset > self._offset:
            self._skipped = (self._offset, offset)
            self._guard = read_at(fd, max(0, offset - _GUARD), offset)
        self._offset = offset

    def _rest_of_former(self, inode: tuple[int, int]) -> tuple[bytes, ...]:
        """Read on in the file that was rotated away, if it lies beside the new one."""
        for path in Path(self.path).parent.glob(f"{glob.escape(Path(self.path).stem)}*"):
            with suppress(OSError):
                status = path.stat()
                if (status.st_dev, status.st_ino) != inode:
                    continue
                with open_regular(str(path)) as (fd, status):
                    size = status.st_size
                    states = self._read(fd, size) if self._unbroken(fd, size) else ()
                    self._skipped = None  # its offsets are those of another file
                    return states
        return ()
