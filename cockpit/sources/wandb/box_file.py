"""A ``.wandb`` file on an ssh host: read from what was brought of it, and nothing else.

What a reader asks for and is not here is a *miss*: reading ends before it, and it is brought by
one of the next looks. So no reader ever waits for a trip, and one trip brings what all want.
"""

from __future__ import annotations

import errno
from typing import Final

from cockpit.sources.logs.pages import PageCache
from cockpit.sources.logs.pieces import Answer, LaterError, Told
from cockpit.sources.logs.ranged import Stat
from cockpit.sources.wandb.file import BLOCK, WandbLog
from cockpit.sources.wandb.launches import LaunchFile

FARTHEST: Final = 4 << 20
"""Bytes before the end of a file in which its newest values are looked for."""
FARTHER: Final = 4
"""How much farther back than a reader wants bytes are brought, in lengths of what it wants."""
LARGEST: Final = 8 << 20
"""Bytes that are brought at most to complete one record."""

Key = tuple[str, tuple[int, int]]


class HeldLog(WandbLog):
    """The bytes of one file that are here."""

    places = 1
    farthest = FARTHEST
    largest = LARGEST

    def __init__(self, cache: PageCache, key: Key, size: int) -> None:
        self.size = size
        self.missed: list[tuple[int, int]] = []
        self._cache = cache
        self._key = key

    def bytes_at(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` on, up to ``stop`` or the first that is not here."""
        stop = min(stop, self.size)
        data, end = self._cache.get(self._key, start, stop)
        if end < stop:
            self.missed.append((end, stop))
        return data

    def near(self, offset: int) -> bool:
        """Tell whether all that follows an offset is here."""
        return self._here(offset, self.size)

    def reach(self, low: int, high: int) -> int:
        """Return from which block's start on, at least ``low``, the bytes to ``high`` are here."""
        found = high
        while found > low:
            start = max(low, (found - 1) // BLOCK * BLOCK)
            if not self._here(start, found):
                self.missed.append((max(0, low - FARTHER * (high - low)), found))
                break
            found = start
        return found

    def _here(self, start: int, stop: int) -> bool:
        return self._cache.get(self._key, start, stop)[1] >= stop


class BoxFile(LaunchFile):
    """A file on a host, as it was told of last; ``told`` is ``None`` before that."""

    far = True

    def __init__(self, path: str, cache: PageCache) -> None:
        self.path = path
        self.told: Told | None = None
        self._cache = cache

    def take(self, told: Told, off: float) -> None:
        """Take in what a trip has brought; ``off`` is the host's clock minus ours (s)."""
        if isinstance(told, Answer):
            key = (self.path, told.identity)
            self._cache.seen(key, told.size)
            for start, data in told.pieces:
                self._cache.put(key, start, data)
            told = told._replace(pieces=())
        self.told, self.skew = told, off

    def drop(self, before: int) -> None:
        """Let the bytes before an offset go; who needs one all the same has missed it."""
        if isinstance(self.told, Answer):
            self._cache.drop((self.path, self.told.identity), before)

    @property
    def version(self) -> str:
        """What the host says of the file as it was seen last; empty before that."""
        return self.told.version if isinstance(self.told, Answer) else ""

    def stat(self) -> Stat:
        """Return what was told, the time on our clock."""
        told = self._answer()
        return Stat(told.size, told.mtime - self.skew, told.identity, told.version)

    def open(self) -> HeldLog:
        """Open what is here of it."""
        told = self._answer()
        return HeldLog(self._cache, (self.path, told.identity), told.size)

    def _answer(self) -> Answer:
        if isinstance(self.told, Answer):
            return self.told
        if self.told is None:
            raise LaterError(
                errno.EAGAIN, "not read yet: files on one host are read one after another"
            )
        raise self.told
