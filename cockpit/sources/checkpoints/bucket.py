"""The tree of one bucket: few folders are listed one by one, many in one go over what they share.

One delimiter listing names the steps of a root; only those that are new or unfinished are listed.
Where that would be many requests (a first look, two hundred runs of one bucket) all keys below
their common prefix are listed instead, a thousand in each page, as long as that costs no more.

Checkpoint roots of an endpoint, listed for all runs that have some there, and remembered.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeVar

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import PAGE, Bucket, Key
from cockpit.sources.checkpoints.assembly import Assembly, Outcome, Surveyed, Told, Want
from cockpit.sources.checkpoints.contents import (
    AWAY,
    NO_STAMPS,
    Contents,
    Entry,
    Level,
    ListingError,
    Opened,
    Piece,
    Stamp,
    Tree,
    TreeListing,
    Walk,
    join,
    latest,
    opened_away,
)
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.listing import MARKERS, Folder, compact
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


WALK_EVERY: Final = 20
"""Looks after which a complete checkpoint is listed anew, whatever its times say."""
STAMPED: Final = 256
"""Known checkpoints of an endpoint that are asked for changes at each look, the newest first."""
_DOCUMENT_LIMIT: Final = 4096


class _Kept(NamedTuple):
    """A checkpoint as it was when it was listed last, and at which look that was."""

    folder: Folder
    looked: int
    settled: bool = False
    stamp: Stamp | None = None


class Survey:
    """Remembers the roots at one endpoint from look to look."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._contents = Contents(tree)
        self._kept: dict[str, _Kept] = {}
        self._barren: dict[str, int] = {}
        self._levels: tuple[str, ...] = ()
        """Folders whose names the former look has needed: this one will need them too."""
        self._looks = 0
        self._place: Place | None = None
        self._markers: set[str] = set()

    async def look(
        self, wants: Collection[Want], until: float
    ) -> dict[Want, Surveyed | ListingError]:
        """List the wanted roots; what was not listed in time is an error, or not judged yet.

        ``until`` is monotonic. What nothing there survives is each root's error.
        """
        self._looks += 1
        markers = {name for want in wants for name in want.markers}
        self._markers = {*MARKERS, *markers}
        self._contents.begin(markers)
        kept = {path: kept.folder for path, kept in self._kept.items()}
        told = Told(self._contents, kept, self._barren)
        try:
            found, outcome = await self._told_all(wants, told, until)
        except ListingError as error:
            return dict.fromkeys(wants, error)
        self._remember(outcome)
        for want in wants:
            self._place = replace(want.place, path="")
        return found

    def settle(self, complete: Collection[str], there: Collection[str]) -> None:
        """Keep which of the checkpoints ``there`` (addresses) were found complete."""
        base = self._place
        if base is None:
            return
        for path, kept in list(self._kept.items()):
            address = clean(str(replace(base, path=path)), _DOCUMENT_LIMIT)
            if address in there and kept.settled != (address in complete):
                folder = compact(kept.folder) if address in complete else kept.folder
                self._kept[path] = kept._replace(folder=folder, settled=address in complete)

    async def _told_all(
        self, wants: Collection[Want], told: Told, until: float
    ) -> tuple[dict[Want, Surveyed | ListingError], Outcome]:
        """Ask until nothing is missing, or the time is over: then what has come is put together."""
        roots = tuple({f"{want.path.rstrip('/')}/" if want.path else "" for want in wants})
        former = (path for path in self._levels if path.startswith(roots))
        levels = [*dict.fromkeys((*(want.path for want in wants), *former))]
        limits = self._tree.limits
        walks, some, stamps = [*self._again(roots)], limits.newest, self._stamps(roots)
        for turn in range(limits.rounds + 1):
            last = turn == limits.rounds or time.monotonic() >= until
            changed: Sequence[str] = ()
            if not last and (levels or walks or stamps):
                answer = await self._tree.fetch(levels, walks, until, self._markers, stamps)
                told.answers.append(answer)
                changed, stamps = [each for each in answer.changed if each not in walks], {}
            outcome = Outcome()
            found = {want: Assembly(want, told, outcome).result() for want in wants}
            levels = [path for path in outcome.missing.levels if path not in levels]
            new = sorted({*changed, *outcome.missing.walks} - {*walks}, key=latest)
            walks = new if len(new) <= 4 * some else new[:some]
            some *= limits.growth if new else 1
            if last or not (levels or walks or self._contents.missing):
                break
            await self._contents.fill(until)
        return found, outcome

    def _again(self, roots: tuple[str, ...]) -> Iterator[str]:
        """Yield what is listed anew though it is known: the unfinished, and some in turns.

        The newest of the complete ones is what a relaunch would load: its turn comes often.
        """

        def turn(path: str) -> tuple[int, tuple[bool, int]]:
            return (self._kept[path].looked, latest(path))

        wanted = {path: kept for path, kept in self._kept.items() if path.startswith(roots)}
        unfinished = [path for path, kept in wanted.items() if not kept.settled]
        limits = self._tree.limits
        yield from sorted(unfinished, key=turn)[: limits.unfinished]
        settled = sorted((path for path, kept in wanted.items() if kept.settled), key=turn)
        if not limits.rotation:
            due = self._looks - WALK_EVERY
            yield from (path for path in settled if wanted[path].looked < due)
            return
        newest: dict[str, str] = {}
        for path in settled:
            root = path.rpartition("/")[0]
            newest[root] = min(path, newest.get(root, path), key=latest)
        first = sorted(newest.values(), key=turn)[: limits.rotation // 2]
        yield from [*dict.fromkeys((*first, *settled))][: limits.rotation]

    def _stamps(self, roots: tuple[str, ...]) -> Mapping[str, Stamp]:
        """Return what tells of the complete checkpoints that are known that they have changed."""
        known = {
            path: kept.stamp
            for path, kept in self._kept.items()
            if kept.settled and kept.stamp is not None and path.startswith(roots)
        }
        most = STAMPED if self._tree.limits.rotation else len(known)
        return {path: known[path] for path in sorted(known, key=latest)[:most]}

    def _remember(self, outcome: Outcome) -> None:
        for path, (folder, stamp) in outcome.fresh.items():
            self._kept[path] = _Kept(folder, self._looks, stamp=stamp)
        kept = set(self._kept) - outcome.seen
        gone = [path for path in kept if path.rpartition("/")[0] in outcome.listed]
        for path in gone:
            del self._kept[path]
        self._contents.forget(gone)
        self._levels = tuple(outcome.used & outcome.fruitful)
        above = {each for path in outcome.late for each in map(str, PurePosixPath(path).parents)}
        known = outcome.listed - outcome.fruitful - outcome.seen - above
        barren = dict.fromkeys(known, self._looks)
        oldest = self._looks - self._tree.limits.barren
        self._barren = {p: at for p, at in {**self._barren, **barren}.items() if at > oldest}
