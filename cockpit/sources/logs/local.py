"""A log that is a file of this machine, where its writer goes on after a rotation, and packed logs.

A rotation renames a file, and a writer that does not open it anew goes on in it. Which files
processes write, the kernel tells (Linux' ``/proc``); those of other users are not seen. Nothing
is kept open between two looks.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple, cast

from cockpit.hosts.agent import newest
from cockpit.model.place import FILE, Place
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.process import WRITTEN_FILES
from cockpit.sources.logs.ranged import NOTHING, Opened, Ranged, Span, Stat, Wish

ENDING: Final = r"(?:[.-]\d[\dT_.:-]*|\.old|\.bak)"
"""What a rotation puts behind a name."""
DELETED: Final = " (deleted)"
"""How the kernel marks a file that has no name any more."""
_ROTATED: Final = re.compile(ENDING)


def goes_on_in(path: str, written: Mapping[str, str]) -> str | None:
    """Return what holds the log now that was once at ``path``; ``None`` where nothing surely does.

    ``written`` are the files that processes write, as the kernel names them, each with a handle
    that reads it (``/proc/PID/fd/N``). Of two that might be it neither is taken.
    """
    if path in written:
        return None
    named = PurePosixPath(path)
    found = set()
    for target, handle in written.items():
        plain = PurePosixPath(target.removesuffix(DELETED))
        gone = target.endswith(DELETED)
        if plain.parent != named.parent or not plain.name.startswith(named.name):
            continue
        if _ROTATED.fullmatch(plain.name, len(named.name)) or (gone and plain == named):
            found.add(handle if gone else target)
    return found.pop() if len(found) == 1 else None


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
        found = newest(self.place.path)
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


MAGIC: Final = 6
"""Bytes at a file's beginning that tell how it is packed."""


class Packing(NamedTuple):
    """One way to pack a file: the program, the ending of the name, how such a file begins.

    ``module`` of the standard library reads it, where this Python has that.
    """

    program: str
    ending: str
    magic: bytes
    module: str


PACKINGS: Final = (
    Packing("gzip", ".gz", b"\x1f\x8b", "gzip"),
    Packing("xz", ".xz", b"\xfd7zXZ\x00", "lzma"),
    Packing("bzip2", ".bz2", b"BZh", "bz2"),
    Packing("zstd", ".zst", b"\x28\xb5\x2f\xfd", "compression.zstd"),
)
ENDINGS: Final = tuple(each.ending for each in PACKINGS)


def packing_of(name: str, head: bytes = b"") -> Packing | None:
    """Return how a file is packed, by its first bytes, else by its name; ``None``: it is not."""
    by_magic = (each for each in PACKINGS if head.startswith(each.magic))
    by_name = (each for each in PACKINGS if name.endswith(each.ending))
    return next(by_magic, None) or next(by_name, None)


def unpacked(packing: Packing, file: BinaryIO) -> BinaryIO:
    """Return what reads a packed file; raises ``OSError`` where this Python cannot."""
    try:
        opener = import_module(packing.module).open
    except ImportError as error:
        text = f"it is packed with {packing.program}, which is not read here: unpack it"
        raise OSError(errno.EOPNOTSUPP, text) from error
    return cast("BinaryIO", opener(file))


def errors() -> tuple[type[Exception], ...]:
    """Return what reading a broken packed file raises, of the modules that are loaded."""
    lzma = sys.modules.get("lzma")
    more: tuple[type[Exception], ...] = () if lzma is None else (lzma.LZMAError,)
    return (OSError, EOFError, zlib.error, *more)


class PackedError(OSError):
    """A log that is to be followed was packed; ``strerror`` names the program."""


def refuse_packed(log: Ranged) -> None:
    """Raise ``PackedError`` for a log that was packed: nobody writes on in one of those."""
    packing = packing_of(log.path)
    if packing is None:
        return
    with log.open(Wish((Span(0, MAGIC),))) as opened:
        head = opened.read(0, min(MAGIC, opened.stat.size))
    if head.startswith(packing.magic):
        raise PackedError(errno.EOPNOTSUPP, packing.program)
