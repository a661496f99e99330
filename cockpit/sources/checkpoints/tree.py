"""What lies away from this machine, as a bucket or a host tells it: listed in bulk, read in pieces.

A ``Tree`` answers for one endpoint and all runs that have roots there. Paths in it are as the
endpoint spells them (``ckpt/run-1`` in a bucket, ``/scratch/run-1`` on a host); times are turned
into this machine's clock, so that two clocks that disagree are judged by the difference.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from cockpit.model.facet import ErrorKind
from cockpit.sources.checkpoints.listing import Link


class ListingError(Exception):
    """Why something could not be listed or read; ``whole``: nothing else there can be either."""

    def __init__(self, kind: ErrorKind, message: str, *, whole: bool = True) -> None:
        super().__init__(message)
        self.kind = kind
        self.whole = whole


class Entry(NamedTuple):
    """One file: its path below what was listed, bytes, mtime (epoch seconds, our clock).

    ``tag`` changes whenever the file does (an etag; size, mtime and inode of a file).
    """

    path: str
    size: int
    mtime: float
    tag: str


class Level(NamedTuple):
    """What lies directly in a folder: its files and the names of its folders.

    ``unread`` says which entries there could not be read, and why; ``links`` are names under which
    something is found a second time, or nothing any more; ``same`` are pairs of names of one thing.
    """

    files: tuple[Entry, ...]
    folders: tuple[str, ...]
    unread: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    same: tuple[tuple[str, str], ...] = ()


class Piece(NamedTuple):
    """Bytes of one file; ``length`` lies within it, ``whole``: it is all of it."""

    path: str
    start: int
    length: int
    whole: bool = False


class Fetched(Protocol):
    """What has been listed, by path; ``None`` for what was not, or not in time."""

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly in a folder."""

    def walk(self, path: str) -> tuple[Entry, ...] | ListingError | None:
        """Return every file below a folder."""


class Tree(Protocol):
    """One endpoint. ``until`` is on the event loop's clock; nothing is asked for beyond it."""

    async def fetch(self, levels: Collection[str], walks: Sequence[str], until: float) -> Fetched:
        """List some folders, and all that is below others, the most wanted first."""

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""


def join(path: str, name: str) -> str:
    """Return the path of something in a folder."""
    return f"{path.rstrip('/')}/{name}" if path else name


class Listed(NamedTuple):
    """Listings that were asked for one by one."""

    levels: dict[str, Level | ListingError]
    walks: dict[str, tuple[Entry, ...] | ListingError]

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly in a folder."""
        return self.levels.get(path)

    def walk(self, path: str) -> tuple[Entry, ...] | ListingError | None:
        """Return every file below a folder."""
        return self.walks.get(path)


class Index:
    """All files below one prefix, in the order of their names; others are told from them.

    ``complete`` is false for a listing that was cut off: then only what lies before its end is
    known.
    """

    def __init__(self, prefix: str, entries: Iterable[Entry], complete: bool = True) -> None:
        self._prefix = prefix
        self._below: dict[str, list[Entry]] = {}
        self._folders: dict[str, dict[str, None]] = {}
        last = ""
        for entry in entries:
            last = entry.path
            parent, _, _ = entry.path.rpartition("/")
            self._below.setdefault(parent, []).append(entry)
            self._enter(parent)
        self._end = None if complete else last

    def _enter(self, folder: str) -> None:
        while folder:
            parent, _, name = folder.rpartition("/")
            known = self._folders.setdefault(parent, {})
            if name in known:
                return
            known[name] = None
            folder = parent

    def _covers(self, path: str) -> bool:
        if self._prefix and path != self._prefix and not path.startswith(f"{self._prefix}/"):
            return False
        end, inside = self._end, f"{path}/" if path else ""
        return end is None or (inside < end and not end.startswith(inside))

    def level(self, path: str) -> Level | None:
        """Return what lies directly in a folder, if the listing covers it."""
        if not self._covers(path):
            return None
        cut = len(path) + 1 if path else 0
        files = (each._replace(path=each.path[cut:]) for each in self._below.get(path, ()))
        return Level(tuple(files), tuple(self._folders.get(path, ())))

    def walk(self, path: str) -> tuple[Entry, ...] | None:
        """Return every file below a folder, if the listing covers it."""
        if not self._covers(path):
            return None
        found: list[Entry] = []
        cut = len(path) + 1 if path else 0
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            found += (e._replace(path=e.path[cut:]) for e in self._below.get(folder, ()))
            waiting += (join(folder, name) for name in self._folders.get(folder, ()))
        return tuple(found)


_NUMBER: Final = re.compile(r"\d{1,18}")


def latest(path: str) -> tuple[bool, int]:
    """Sort names without a number first, then the highest number (a step, in every layout)."""
    found = _NUMBER.search(path.rpartition("/")[2])
    return (found is not None, 0 if found is None else -int(found[0]))
