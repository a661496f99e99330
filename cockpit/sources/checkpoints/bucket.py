"""The tree of one bucket: few folders are listed one by one, many in one go over what they share.

One delimiter listing names the steps of a root; only those that are new or unfinished are listed.
Where that would be many requests (a first look, two hundred runs of one bucket) all keys below
their common prefix are listed instead, a thousand in each page, as long as that costs no more.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cockpit.model.facet import ErrorKind
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import PAGE, Bucket, Key
from cockpit.sources.checkpoints.contents import (
    AWAY,
    NO_STAMPS,
    Entry,
    Level,
    ListingError,
    Opened,
    Piece,
    Stamp,
    TreeListing,
    Walk,
    join,
    opened_away,
)
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.text.safe import clean

_LIMIT: Final = 4096
T = TypeVar("T")
K = TypeVar("K")

FEW: Final = 8
"""Folders of one prefix up to which each is listed by itself."""
PAGES: Final = 100
"""Pages at most in which all keys of a prefix are listed."""
BIG: Final = 20
"""Pages of one checkpoint at most: one of more objects than that is not listed to its end."""
TOGETHER: Final = 32
"""Requests that are under way at once."""
LOOKS: Final = 60
"""Looks for which a prefix that has too many keys is not listed in one go again."""


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

    def walk(self, path: str) -> Walk | None:
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
        return Walk(tuple(found))


@dataclass
class _Found:
    """What one look has listed, in one go or one by one."""

    bucket: str
    listed: TreeListing = field(default_factory=TreeListing)
    indexes: list[Index] = field(default_factory=list)
    every: ListingError | None = None
    """Why nothing there can be listed."""
    changed: frozenset[str] = frozenset()

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly under a prefix; nothing at all is an error: no such prefix."""
        found = self.every or self.listed.level(path)
        if found is None:
            found = next(filter(None, (index.level(path) for index in self.indexes)), None)
        if found == Level((), ()):
            where = f"{self.bucket}/{path}".rstrip("/")
            text = clean(f"{where}: nothing there (no key has this prefix)", _LIMIT)
            return ListingError(ErrorKind.NOT_FOUND, text, whole=False, missing=True)
        return found

    def walk(self, path: str) -> Walk | ListingError | None:
        """Return every object below a prefix."""
        found = self.every or self.listed.walk(path)
        if found is not None:
            return found
        known = (index.walk(path) for index in self.indexes)
        return next((each for each in known if each is not None), None)


class BucketTree:
    """Lists and reads one bucket for all runs that have roots in it."""

    limits = AWAY

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._skew = 0.0
        self._looks = 0
        self._too_many: dict[str, int] = {}
        """Prefixes with more keys than are listed in one go, and when that was seen."""

    async def fetch(
        self,
        levels: Collection[str],
        walks: Sequence[str],
        until: float,
        markers: Collection[str] = (),
        stamps: Mapping[str, Stamp] = NO_STAMPS,
    ) -> _Found:
        """List prefixes by their delimiter, and all that is below others; none has a stamp."""
        found = _Found(f"{self._bucket.scheme}://{self._bucket.name}")
        self._looks += 1
        try:
            async with asyncio.timeout_at(until):
                self._skew = await self._bucket.skew()
                for prefix, count in _together([*levels, *walks]):
                    await self._in_one_go(prefix, count, found)
                await self._first(levels, walks, found)
        except TimeoutError:
            return found
        except BucketError as error:
            found.every = _listing_error(error)
            return found
        await _each(
            [path for path in levels if found.level(path) is None],
            self._level,
            found.listed.levels,
            until,
        )
        await _each(
            [path for path in walks if found.walk(path) is None],
            self._walk,
            found.listed.walks,
            until,
        )
        return found

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""
        found: dict[Piece, bytes | ListingError] = {}
        await _each(pieces, self._piece, found, until)
        return found

    async def opened(self, files: Sequence[Entry], until: float) -> Mapping[str, Opened]:
        """Return what objects that are checkpoints say of themselves."""
        return await opened_away(self, files, until)

    async def _in_one_go(self, prefix: str, count: int, found: _Found) -> None:
        """List all keys below a prefix if that takes no more requests than ``count``."""
        seen = self._too_many.get(prefix)
        if seen is not None and self._looks - seen < LOOKS:
            return
        keys: list[Key] = []
        complete = False
        try:
            complete = await self._bucket.keys(prefix, PAGE * min(PAGES, count), keys)
            if not keys:
                await self._bucket.see_nothing(prefix)
            self._too_many.pop(prefix, None)
        except BucketError as error:
            if error.whole:
                raise
            self._too_many[prefix] = self._looks  # it may be listed further down only
        finally:
            entries = [self._entry(key) for key in keys]
            if entries or complete:
                found.indexes.append(Index(prefix, entries, complete))
        if not complete:
            self._too_many[prefix] = self._looks

    async def _first(self, levels: Collection[str], walks: Sequence[str], found: _Found) -> None:
        """Ask one question alone: what refuses that one is not asked the others."""
        path = next((path for path in levels if found.level(path) is None), None)
        if path is None or found.indexes:
            return
        found.listed.levels[path] = await self._level(path)

    async def _level(self, path: str) -> Level | ListingError:
        try:
            level = await self._bucket.level(path)
            if not (level.keys or level.prefixes):
                await self._bucket.see_nothing(path)
        except BucketError as error:
            if error.whole:
                raise
            if error.key is not None and error.key.startswith(f"{_inside(path)}/"):
                return await self._past_empty_part(path, error)
            return _listing_error(error)
        files = (self._entry(key, path) for key in level.keys if key.path != path)
        cut = len(path) + 1 if path else 0
        return Level(tuple(files), tuple(each[cut:].rstrip("/") for each in level.prefixes))

    async def _past_empty_part(self, path: str, error: BucketError) -> Level | ListingError:
        """Return what lies directly under a prefix beside keys with an empty part (``run//x``).

        The client refuses a whole page of a listing for one such key. They sort before all names
        that begin with a digit or a letter, so the listing begins behind them.
        """
        keys: list[Key] = []
        try:
            complete = await self._bucket.keys(path, PAGE * BIG, keys, after=f"{_inside(path)}0")
            own: list[Key] = []
            await self._bucket.keys(f"{_inside(path)}{FOLDER}", PAGE, own)
        except BucketError as other:
            if other.whole:
                raise
            return _listing_error(other)
        level = Index(path, map(self._entry, [*keys, *own]), complete).level(path)
        if level is None:
            text = f"{error}; there are more than {PAGE * BIG:,} keys beside it"
            return ListingError(ErrorKind.BAD_ANSWER, clean(text, _LIMIT), whole=False)
        return level._replace(unread=(clean(error, _LIMIT),))

    async def _walk(self, path: str) -> Walk | ListingError:
        keys: list[Key] = []
        if not await self._bucket.keys(path, PAGE * BIG, keys):
            text = f"more than {PAGE * BIG:,} objects"
            return ListingError(ErrorKind.BAD_ANSWER, text, whole=False)
        return Walk(tuple(self._entry(key, path) for key in keys if key.path != path))

    async def _piece(self, piece: Piece) -> bytes | ListingError:
        return await self._bucket.read(piece.path, piece.start, piece.length)

    def _entry(self, key: Key, prefix: str = "") -> Entry:
        cut = len(prefix) + 1 if prefix else 0
        return Entry(key.path[cut:], key.size, key.at - self._skew, key.tag)


def _inside(path: str) -> str:
    """Return what the keys below a prefix begin with."""
    return f"{path}/" if path else ""


def _together(paths: Iterable[str]) -> list[tuple[str, int]]:
    """Return prefixes that many of the paths share, and how many, so that none is in two."""
    groups: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        groups.setdefault(path.partition("/")[0], []).append(path)
    many = [group for group in groups.values() if len(group) > FEW]
    rest = [path for group in groups.values() if len(group) <= FEW for path in group]
    if len(rest) > FEW:
        return [("", sum(map(len, groups.values())))]
    return [(posixpath.commonpath(group), len(group)) for group in many]


async def _each(
    asked: Sequence[K],
    ask: Callable[[K], Awaitable[T | ListingError]],
    found: dict[K, T | ListingError],
    until: float,
) -> None:
    """Ask for each, a few at a time, as far as the time lasts; an error is an answer too."""
    waiting = iter([each for each in asked if each not in found])

    async def some() -> None:
        for each in waiting:
            try:
                found[each] = await ask(each)
            except BucketError as error:
                found[each] = _listing_error(error)
                if error.whole:
                    return

    try:
        async with asyncio.timeout_at(until), asyncio.TaskGroup() as group:
            for _ in range(min(TOGETHER, len(asked))):
                group.create_task(some())
    except TimeoutError:
        return


def _listing_error(error: BucketError) -> ListingError:
    return ListingError(error.kind, str(error), whole=error.whole)
