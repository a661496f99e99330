"""Roots away from this machine, listed for all runs of an endpoint, and remembered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.bucket_client import is_archived
from cockpit.sources.checkpoints.contents import (
    LATE,
    Contents,
    Entry,
    Fetched,
    Level,
    ListingError,
    Tree,
    join,
    late,
    latest,
)
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.findings import merged_ranks
from cockpit.sources.checkpoints.layouts import is_beside, is_named, is_single, is_sure
from cockpit.sources.checkpoints.listing import (
    INNER,
    MARKERS,
    NUMBER,
    STEP_NAME,
    Folder,
    Lead,
    Listed,
    Root,
    compact,
    file_looks_like_save,
    holds_data,
    is_pointer,
    looks_like_checkpoint,
    may_look_like_save,
    may_name,
    read_marker,
)
from cockpit.sources.checkpoints.listing import TRAINER_STATE as STATE
from cockpit.sources.checkpoints.scan import ASIDE, DEPTH, FAN, NAMES, below
from cockpit.text.safe import clean

LOADABLE: Final = 3
"""Checkpoints of one root that are found not to be archived, at each look: the newest ones."""


class Want(NamedTuple):
    """One root of a run: where, what its own layout is called, and its folder's likely names."""

    place: Place
    pattern: re.Pattern[str] | None = None
    markers: tuple[str, ...] = ()
    prefer: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The root as its endpoint spells it."""
        return self.place.path.rstrip("/") or self.place.path[:1]


class Surveyed(NamedTuple):
    """What lies at a wanted root; ``marks`` are its files of rejected checkpoints, by root.

    ``unjudged`` counts the folders for which there was no time yet.
    """

    roots: tuple[Root, ...]
    marks: Mapping[str, Listed]
    unjudged: int = 0


@dataclass
class Told:
    """All that one look has been told; of what was told twice the newer holds.

    ``kept`` are the checkpoints of former looks, ``barren`` folders without any.
    """

    contents: Contents
    kept: Mapping[str, Folder]
    barren: Mapping[str, int]
    answers: list[Fetched] = field(default_factory=list)

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly in a folder."""
        known = (answer.level(path) for answer in reversed(self.answers))
        return next((each for each in known if each is not None), None)

    def walk(self, path: str) -> tuple[Entry, ...] | ListingError | None:
        """Return every file below a folder."""
        known = (answer.walk(path) for answer in reversed(self.answers))
        return next((each for each in known if each is not None), None)


@dataclass
class Missing:
    """What a pass could not do without and was not told."""

    levels: dict[str, None] = field(default_factory=dict)
    walks: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.levels or self.walks)


@dataclass
class Outcome:
    """What the passes over all roots have found: for the memory of the next look."""

    missing: Missing = field(default_factory=Missing)
    used: set[str] = field(default_factory=set)
    """Folders whose names were needed."""
    listed: set[str] = field(default_factory=set)
    """Those of them whose names are known."""
    fruitful: set[str] = field(default_factory=set)
    """Those of them in or below which there are checkpoints."""
    fresh: dict[str, Folder] = field(default_factory=dict)
    """Checkpoints that were listed at this look, by path."""
    seen: set[str] = field(default_factory=set)
    """All checkpoints that are there."""


class Assembly:
    """One pass over one wanted root."""

    def __init__(self, want: Want, told: Told, outcome: Outcome) -> None:
        self._want = want
        self._told = told
        self._out = outcome
        self._marks: dict[str, Listed] = {}
        self._pending = 0
        self._unread: list[str] = []
        """What the folders hold that could not be read."""

    def result(self) -> Surveyed | ListingError:
        """Return the roots as far as they are known, or why there is nothing to know."""
        path = self._want.path
        try:
            found = merged_ranks(list(self._below(path, DEPTH)), self._address(path))
        except ListingError as error:
            return error
        if path in self._out.missing.levels:
            return late(str(self._want.place))
        prefer = self._want.prefer
        chosen = [root for root in found if self._parts(root) & prefer]
        kept = (chosen or found) if len(found) > 1 else found
        if self._unread and not kept and not self._pending:
            return ListingError(ErrorKind.BAD_ANSWER, self._unread[0], whole=False)
        roots = kept or [Root(self._address(path))]
        roots[0] = replace(roots[0], notes=tuple(dict.fromkeys(self._unread)))
        return Surveyed(tuple(roots), self._marks, self._pending)

    def _below(self, path: str, depth: int) -> Iterator[Root]:
        level = self._level(path)
        if level is None:
            return
        if self._is_checkpoint(path, level):
            folder = self._folder(path)
            parent = path.rpartition("/")[0]
            self._out.fruitful.add(path)
            yield Root(self._address(parent), () if folder is None else (folder,))
            return
        before = self._pending
        root = self._root(path, level)
        if root.folders or self._pending > before or self._has_sure(root):
            self._out.fruitful.add(path)
            yield root
            inner = (join(path, name) for name in sorted(level.folders) if name in INNER)
            yield from (each for child in inner for each in self._into(child, 0))
            return
        found = list(self._children(path, level, depth))
        weak = root.lookalikes or any(self._single(file.path) for file in root.files)
        if weak or any(each.lookalikes for each in found):
            sure = [each for each in found if each.folders or self._has_sure(each)]
            found = sure or ([root] if weak else found)
        if found:
            self._out.fruitful.add(path)
        yield from found

    def _children(self, path: str, level: Level, depth: int) -> Iterator[Root]:
        """Yield the roots below a folder; where some have the run's name, only those."""
        names = [name for name in sorted(level.folders) if _worth_descending(name)][:FAN]
        named = [name for name in names if name in self._want.prefer]
        for group in (named, [name for name in names if name not in named]):
            found = False
            for name in group:
                child, left = join(path, name), below(name, depth)
                if left is None or child in self._told.barren:
                    continue
                for root in self._into(child, left):
                    found = True
                    yield root
            if found:
                return

    def _into(self, path: str, depth: int) -> Iterator[Root]:
        try:
            yield from self._below(path, depth)
        except ListingError as error:
            if error.whole:
                raise

    def _level(self, path: str) -> Level | None:
        """Return what lies in a folder, if it is known yet; raises what listing it has met."""
        self._out.used.add(path)
        level = self._told.level(path)
        if level is None:
            self._out.missing.levels[path] = None
        if isinstance(level, ListingError):
            raise level
        if level is not None:
            self._out.listed.add(path)
            self._unread += level.unread
        return level

    def _root(self, path: str, level: Level) -> Root:
        folders: list[Folder] = []
        others: list[str] = []
        files: list[Listed] = []
        for name in (name for name in sorted(level.folders) if name):
            child = join(path, name)
            if ASIDE.fullmatch(name) is None and self._is_candidate(child, name):
                folder = self._folder(child)
                folders += [] if folder is None else [folder]
            elif ASIDE.fullmatch(name) is None:
                others.append(name)
        weak = [
            each
            for name in others[:FAN]
            for each in self._lookalike(join(path, name), name, alone=not folders)
        ]
        self._files(path, level, files, weak)
        address = self._address(path)
        if FOLDER in level.folders:
            self._mark(address, join(path, FOLDER))
        known = self._with_archived(path, folders)
        found = Root(address, known, tuple(files), lookalikes=tuple(weak), links=level.links)
        return self._with_names(found, path, level) if folders or files or weak else found

    def _files(self, path: str, level: Level, files: list[Listed], weak: list[Folder]) -> None:
        """Add the files of a root that are saves, belong to some, or look like some."""
        for entry in level.files:
            if is_pointer(entry.path):
                files.append(self._told.contents.listed(path, entry))
            elif self._single(entry.path):
                files.append(self._told.contents.listed(path, entry, single=True))
            elif is_beside(entry.path):
                files.append(Listed(entry.path, entry.size, entry.mtime))
            elif file_looks_like_save(entry.path):
                listed = Listed(entry.path, entry.size, entry.mtime)
                weak.append(Folder(entry.path, (listed,), entry.mtime, single=True))

    def _lookalike(self, path: str, name: str, *, alone: bool) -> Iterator[Folder]:
        """Yield what looks like a save of whatever trainer, though no known name is in it."""
        if name.startswith(".") or path in self._told.barren:
            return
        try:
            level = self._level(path)
        except ListingError as error:
            if error.whole:
                raise
            return
        names = (*level.folders, *(each.path for each in level.files)) if level is not None else ()
        if may_look_like_save(name, names, alone=alone or is_named(name)):
            folder = self._folder(path)
            self._out.fruitful.add(path)
            yield from [folder] if folder is not None and holds_data(folder) else []

    def _with_names(self, root: Root, path: str, level: Level) -> Root:
        """Return a root with what in it names a checkpoint."""
        base = root.path.rstrip("/")
        leads = tuple(Lead(name, f"{base}/{of}") for name, of in level.same)
        small = [e for e in level.files if e.path == STATE or may_name(e.path, e.size)][:NAMES]
        names = tuple(self._told.contents.listed(path, entry, names=True) for entry in small)
        return replace(root, leads=leads, names=names, real=base)

    def _with_archived(self, root: str, folders: list[Folder]) -> tuple[Folder, ...]:
        """Return the folders, the newest ones with why they must be restored, if they must.

        From the newest on, until so many are found that can be loaded now.
        """
        if self._want.place.scheme != "s3":
            return tuple(folders)
        found, loadable = {}, 0
        for folder in sorted(folders, key=lambda each: latest(each.name)):
            why = self._told.contents.archived(join(root, folder.name))
            found[folder.name] = why or next(filter(is_archived, _errors(folder)), None)
            loadable += found[folder.name] is None
            if loadable == LOADABLE:
                break
        return tuple(replace(each, archived=found.get(each.name)) for each in folders)

    def _mark(self, address: str, path: str) -> None:
        level = self._level(path)
        self._out.fruitful.add(path)
        for entry in level.files if level is not None else ():
            if entry.path == NAME:
                self._marks[address] = self._told.contents.listed(path, entry)

    def _is_candidate(self, path: str, name: str) -> bool:
        if looks_like_checkpoint(name):
            return True
        if self._want.pattern is not None and self._want.pattern.fullmatch(name):
            return True
        if name.startswith(".") or path in self._told.barren:
            return False
        try:
            level = self._level(path)
        except ListingError as error:
            if error.whole:
                raise
            return False
        if level is None:
            return False
        # One that is named like any number is one of Orbax's if it has a marker.
        names = {*level.folders, *(entry.path for entry in level.files)}
        marked = NUMBER.fullmatch(name) is not None and bool(names & set(MARKERS))
        return marked or ("metadata.json" in names and self._has_step(path))

    def _is_checkpoint(self, path: str, level: Level) -> bool:
        """Tell whether the path that was given is one checkpoint, not a folder of checkpoints."""
        names = {*level.folders, *(entry.path for entry in level.files)}
        if any(map(looks_like_checkpoint, names)):
            return False
        if STEP_NAME.fullmatch(path.rpartition("/")[2]):
            return bool({*MARKERS, "manifest.ocdbt"} & names)
        return "metadata.json" in names and self._has_step(path)

    def _has_step(self, path: str) -> bool:
        """Tell whether ``metadata.json`` makes a folder of any name a checkpoint."""
        folder = self._folder(path)
        marker = folder.by_path.get("metadata.json") if folder is not None else None
        return marker is not None and read_marker(marker).step is not None

    def _folder(self, path: str) -> Folder | None:
        """Return a checkpoint as it was listed at this look, else as it was before."""
        name = path.rpartition("/")[2]
        files = self._told.walk(path)
        if files is None:
            kept = self._told.kept.get(path)
            self._out.seen.add(path)
            if kept is None:
                self._out.missing.walks[path] = None
                self._pending += 1
            return kept
        if isinstance(files, ListingError):
            if files.whole:
                raise files
            if files.kind is ErrorKind.NOT_FOUND:
                return None
            folder = Folder(name, error=str(files))
        else:
            self._told.contents.found(path, files)
            listed = (self._told.contents.listed(path, entry) for entry in files)
            folder = Folder(name, tuple(listed))
        self._out.seen.add(path)
        if any(file.error == LATE for file in folder.files):  # the newest are read first
            self._pending += 1
            return self._told.kept.get(path)
        self._out.fresh[path] = folder
        return folder

    def _single(self, name: str) -> bool:
        own = self._want.pattern is not None and self._want.pattern.fullmatch(name) is not None
        return own or is_single(name)

    def _has_sure(self, root: Root) -> bool:
        """Tell of a file that is a checkpoint for sure, so that none is looked for below."""
        pattern = self._want.pattern
        return any(
            is_sure(file.path) or (pattern is not None and pattern.fullmatch(file.path))
            for file in root.files
        )

    def _address(self, path: str) -> str:
        return str(replace(self._want.place, path=path)).rstrip("/")

    def _parts(self, root: Root) -> set[str]:
        """Return the folder names on the way from the wanted root down to one below it."""
        return set(root.path.removeprefix(self._address(self._want.path)).split("/"))


def _errors(folder: Folder) -> Iterator[str]:
    return (file.error for file in folder.files if file.error is not None)


def _worth_descending(name: str) -> bool:
    return bool(name) and not name.startswith(".") and ASIDE.fullmatch(name) is None


ROTATION: Final = 4
"""Complete checkpoints of an endpoint that are listed anew at each look, in turns."""
UNFINISHED: Final = 64
"""Others of an endpoint that are listed anew at each look, in turns if there are more."""
MANY: Final = 24
NEWEST: Final = 6
"""Of more new checkpoints than ``MANY`` so many come first, with their markers."""
BARREN: Final = 5
"""Looks for which a folder in which no checkpoint was found is not looked into again."""
ROUNDS: Final = 8
"""Times that what is missing is asked for: names three levels deep, files, their contents."""
_LIMIT: Final = 4096


class _Kept(NamedTuple):
    """A checkpoint as it was when it was listed last, and at which look that was."""

    folder: Folder
    looked: int
    settled: bool = False


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

    async def look(
        self, wants: Collection[Want], until: float
    ) -> dict[Want, Surveyed | ListingError]:
        """List the wanted roots; what was not listed in time is an error, or not judged yet.

        ``until`` is on the event loop's clock. What nothing there survives is each root's error.
        """
        self._looks += 1
        self._contents.begin({name for want in wants for name in want.markers})
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
            address = clean(str(replace(base, path=path)), _LIMIT)
            if address in there and kept.settled != (address in complete):
                folder = compact(kept.folder) if address in complete else kept.folder
                self._kept[path] = _Kept(folder, kept.looked, address in complete)

    async def _told_all(
        self, wants: Collection[Want], told: Told, until: float
    ) -> tuple[dict[Want, Surveyed | ListingError], Outcome]:
        """Ask until nothing is missing, or the time is over."""
        roots = tuple({f"{want.path.rstrip('/')}/" if want.path else "" for want in wants})
        former = (path for path in self._levels if path.startswith(roots))
        levels = [*dict.fromkeys((*(want.path for want in wants), *former))]
        walks, begun = [*self._again(roots)], False
        for _ in range(ROUNDS):
            if levels or walks:
                told.answers.append(await self._tree.fetch(levels, walks, until))
            outcome = Outcome()
            found = {want: Assembly(want, told, outcome).result() for want in wants}
            levels = [path for path in outcome.missing.levels if path not in levels]
            new = sorted((p for p in outcome.missing.walks if p not in walks), key=latest)
            walks = new[:NEWEST] if len(new) > MANY and not begun else new
            begun = begun or bool(new)
            reads = bool(self._contents.missing)
            await self._contents.fill(until)
            if not (levels or walks or reads):
                break
        return found, outcome

    def _again(self, roots: tuple[str, ...]) -> Iterator[str]:
        """Yield what is listed anew though it is known: the unfinished, and some in turns.

        The newest of the complete ones is what a relaunch would load: its turn comes often.
        """

        def turn(path: str) -> tuple[int, tuple[bool, int]]:
            return (self._kept[path].looked, latest(path))

        wanted = {path: kept for path, kept in self._kept.items() if path.startswith(roots)}
        unfinished = [path for path, kept in wanted.items() if not kept.settled]
        yield from sorted(unfinished, key=turn)[:UNFINISHED]
        settled = sorted((path for path, kept in wanted.items() if kept.settled), key=turn)
        newest: dict[str, str] = {}
        for path in settled:
            root = path.rpartition("/")[0]
            newest[root] = min(path, newest.get(root, path), key=latest)
        first = sorted(newest.values(), key=turn)[: ROTATION // 2]
        yield from [*dict.fromkeys((*first, *settled))][:ROTATION]

    def _remember(self, outcome: Outcome) -> None:
        for path, folder in outcome.fresh.items():
            former = self._kept.get(path)
            self._kept[path] = _Kept(folder, self._looks, former is not None and former.settled)
        kept = set(self._kept) - outcome.seen
        gone = [path for path in kept if path.rpartition("/")[0] in outcome.listed]
        for path in gone:
            del self._kept[path]
        self._contents.forget(gone)
        self._levels = tuple(outcome.used & outcome.fruitful)
        barren = dict.fromkeys(outcome.used - outcome.fruitful - outcome.seen, self._looks)
        recent = {p: at for p, at in self._barren.items() if self._looks - at < BARREN}
        self._barren = {**recent, **barren}
