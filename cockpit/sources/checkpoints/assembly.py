"""Which checkpoints lie at a root, put together from what was listed there.

The same for folders of a machine and for prefixes of an object store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import normpath
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.bucket_client import is_archived
from cockpit.sources.checkpoints import layouts
from cockpit.sources.checkpoints.contents import (
    LATE,
    Contents,
    Fetched,
    Level,
    ListingError,
    Stamp,
    Walk,
    join,
    late,
    latest,
)
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.findings import merged_ranks
from cockpit.sources.checkpoints.listing import (
    INNER,
    MARKERS,
    NUMBER,
    ORBAX_MARKS,
    STEP_NAME,
    Folder,
    Lead,
    Listed,
    Root,
    before_number,
    file_looks_like_save,
    holds_data,
    is_pointer,
    looks_like_checkpoint,
    may_look_like_save,
    may_name,
    read_marker,
)
from cockpit.sources.checkpoints.listing import TRAINER_STATE as STATE

DEPTH: Final = 2
"""How many levels below a given path checkpoints are looked for (``<root>/<run id>/step-N``)."""
HOLDER: Final = re.compile(r"lightning_logs|checkpoints?|ckpts?|weights")
"""Folders that a trainer itself puts around its saves: they do not count as a level."""
NAMES: Final = 64
"""Files in a root at most that are asked whether they name a checkpoint."""
FAN: Final = 200
"""Subfolders at most that are looked into on the way down."""
ASIDE: Final = re.compile(r"\.cockpit|lost\+found|rejected-.*|.*\.deleting-[0-9a-f]{6,}")
"""What was moved aside or is being deleted, and a disk's own folder: never a checkpoint."""


def below(name: str, depth: int) -> int | None:
    """Return how many levels are left below a folder of this name, ``None`` for too few."""
    left = depth if HOLDER.fullmatch(name) else depth - 1
    return left if left >= 0 else None


LOADABLE: Final = 3
"""Checkpoints of one root that are found not to be archived, at each look: the newest ones."""


def plain(path: str) -> str:
    """Return a path of this machine in full."""
    if path.startswith("/") and path == normpath(path):
        return path
    return str(Path(path).expanduser().absolute())


class Want(NamedTuple):
    """One root of a run: where, what its own layout is called, and its folder's likely names."""

    place: Place
    pattern: re.Pattern[str] | None = None
    markers: tuple[str, ...] = ()
    prefer: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The root as its endpoint spells it."""
        path = plain(self.place.path) if self.place.here else self.place.path
        return path.rstrip("/") or path[:1]


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

    def walk(self, path: str) -> Walk | ListingError | None:
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
    late: set[str] = field(default_factory=set)
    """Those of them for which there was no time."""
    fruitful: set[str] = field(default_factory=set)
    """Those of them in or below which there are checkpoints."""
    fresh: dict[str, tuple[Folder, Stamp | None]] = field(default_factory=dict)
    """Checkpoints that were listed at this look, by path, with what tells of a change."""
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
        self._late: set[str] = set()
        """Folders whose names were not listed in time: what lies in them is not known."""
        self._unread: list[str] = []
        """What the folders hold that could not be read."""

    def result(self) -> Surveyed | ListingError:
        """Return the roots as far as they are known, or why there is nothing to know."""
        path = self._want.path
        try:
            found = merged_ranks(list(self._below(path, DEPTH)), self._address(path))
        except ListingError as error:
            return error
        if path in self._late:
            return late(str(self._want.place))
        prefer = self._want.prefer
        chosen = [root for root in found if self._parts(root) & prefer]
        kept = (chosen or found) if len(found) > 1 else found
        if self._unread and not kept and not self._pending and not self._late:
            return ListingError(ErrorKind.BAD_ANSWER, self._unread[0], whole=False)
        roots = kept or [Root(self._address(path))]
        notes, unnamed = tuple(dict.fromkeys(self._unread)), len(self._late)
        roots[0] = replace(roots[0], notes=notes, unnamed=unnamed)
        return Surveyed(tuple(roots), self._marks, self._pending + unnamed)

    def _below(self, path: str, depth: int) -> Iterator[Root]:
        level = self._level(path)
        if level is None:
            return
        if self._is_checkpoint(path, level):
            folder = self._folder(path)
            parent = path.rpartition("/")[0]
            self._out.fruitful.add(path)
            self._mark(self._address(parent), join(parent, FOLDER))
            yield Root(self._address(parent), () if folder is None else (folder,))
            return
        before = self._pending
        root = self._root(path, level)
        if root.folders or self._pending > before or self._has_sure(root):
            self._out.fruitful.add(path)
            yield root
            for name, left in _inner(root, level):
                yield from self._into(join(path, name), left)
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
        names = _descended(level)
        named = [name for name in names if name in self._want.prefer]
        others = [name for name in names if name not in named]
        others.sort(key=lambda name: HOLDER.fullmatch(name) is None)
        for group in (named, others[:FAN]):
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
        if len(others) > FAN:
            text = f"{len(others)} folders, and no save in {FAN} of them"
            self._unread.append(f"{self._address(path)}: {text}: name this run's own in path")

    def _into(self, path: str, depth: int) -> Iterator[Root]:
        try:
            yield from self._below(path, depth)
        except ListingError as error:
            self._left_out(path, error)

    def _left_out(self, path: str, error: ListingError) -> None:
        """Note that a folder could not be looked into; raises what nothing there survives."""
        if error.whole:
            raise error
        if error.kind is ErrorKind.TIMEOUT:
            self._note_late(path)
        elif not error.missing:
            self._unread.append(str(error))

    def _note_late(self, path: str) -> None:
        self._late.add(path)
        self._out.late.add(path)

    def _names(self, path: str) -> Level | None:
        """Return what lies in one folder of many; that it cannot be listed is noted."""
        try:
            return self._level(path)
        except ListingError as error:
            self._left_out(path, error)
            return None

    def _level(self, path: str) -> Level | None:
        """Return what lies in a folder, if it is known yet; raises what listing it has met."""
        self._out.used.add(path)
        level = self._told.level(path)
        if level is None:
            self._out.missing.levels[path] = None
            self._note_late(path)
        if isinstance(level, ListingError):
            raise level
        if level is not None:
            self._out.listed.add(path)
            self._unread += level.unread
        return level

    def _root(self, path: str, level: Level) -> Root:
        order = _real_ones_first(level)
        there = sorted((name for name in level.folders if name), key=order)
        candidates = [
            name
            for name in there
            if ASIDE.fullmatch(name) is None and self._is_candidate(join(path, name), name)
        ]
        candidates += self._numbered_beside(path, candidates, level)
        listed = (self._folder(join(path, name)) for name in _once(candidates, level))
        folders = [folder for folder in listed if folder is not None]
        known = set(candidates)
        others = [name for name in _descended(level) if name not in known]
        weak = [
            each
            for name in others[:FAN]
            for each in self._lookalike(join(path, name), name, alone=not folders)
        ]
        files: list[Listed] = []
        self._files(path, level, files, weak)
        address = self._address(path)
        if FOLDER in level.folders:
            self._mark(address, join(path, FOLDER))
        saves = self._with_archived(path, folders)
        found = Root(address, saves, tuple(files), lookalikes=tuple(weak), links=level.links)
        return self._with_names(found, path, level) if folders or files or weak else found

    def _files(self, path: str, level: Level, files: list[Listed], weak: list[Folder]) -> None:
        """Add the files of a root that are saves, belong to some, or look like some."""
        entries = {entry.path: entry for entry in level.files}
        ordered = sorted(entries, key=_real_ones_first(level))
        singles = _once([name for name in ordered if self._single(name)], level)
        links = {link.name for link in level.links}
        for name in ordered:
            entry = entries[name]
            if self._single(name):
                if name in singles:
                    files.append(self._told.contents.listed(path, entry, single=True))
            elif is_pointer(name) or layouts.is_beside(name):
                files.append(self._told.contents.listed(path, entry))
            elif file_looks_like_save(name) and name not in links:
                listed = Listed(name, entry.size, entry.mtime)
                weak.append(Folder(name, (listed,), entry.mtime, single=True))

    def _lookalike(self, path: str, name: str, *, alone: bool) -> Iterator[Folder]:
        """Yield what looks like a save of whatever trainer, though no known name is in it."""
        if name.startswith(".") or path in self._told.barren:
            return
        names = self._inside(path)
        if may_look_like_save(name, names, alone=alone or layouts.is_named(name)):
            folder = self._folder(path)
            self._out.fruitful.add(path)
            yield from [folder] if folder is not None and holds_data(folder) else []

    def _with_names(self, root: Root, path: str, level: Level) -> Root:
        """Return a root with what in and beside it names a checkpoint."""
        real, links = level.real or path, {link.name for link in level.links}
        above = path.rpartition("/")[0].rpartition("/")[2]
        leads = [(link.name, link.real) for link in level.links]
        leads += [(f"{above}/{name}", of) for name, of in level.above]
        leads += [
            (name, join(real, other))
            for name, thing in level.twins.items()
            for other, same in level.twins.items()
            if same == thing and name != other and name not in links and other not in links
        ]
        small = [
            entry
            for entry in sorted(level.files)
            if entry.path not in links and (entry.path == STATE or may_name(entry.path, entry.size))
        ][:NAMES]
        return replace(
            root,
            leads=tuple(Lead(name, self._address(of)) for name, of in leads),
            names=tuple(self._told.contents.listed(path, entry, names=True) for entry in small),
            real=self._address(real),
        )

    def _with_archived(self, root: str, folders: list[Folder]) -> tuple[Folder, ...]:
        """Return the folders, the newest ones with why they must be restored, if they must.

        From the newest on, until so many are found that can be loaded now.
        """
        if self._want.place.scheme != "s3":
            return tuple(folders)
        found, loadable = {}, 0
        for folder in sorted(folders, key=lambda each: latest(each.name)):
            why = self._told.contents.archived(join(root, folder.name))
            found[folder.name] = why or next(
                filter(is_archived, (file.error for file in folder.files)), None
            )
            loadable += found[folder.name] is None
            if loadable == LOADABLE:
                break
        return tuple(replace(each, archived=found.get(each.name)) for each in folders)

    def _mark(self, address: str, path: str) -> None:
        try:
            level = self._level(path)
        except ListingError as error:
            if not error.missing:
                raise
            return
        self._out.fruitful.add(path)
        for entry in level.files if level is not None else ():
            if entry.path == NAME:
                self._marks[address] = self._told.contents.listed(path, entry)

    def _is_candidate(self, path: str, name: str) -> bool:
        if looks_like_checkpoint(name) or layouts.is_sure_folder(name):
            return True
        if self._want.pattern is not None and self._want.pattern.fullmatch(name):
            return True
        if name.startswith(".") or path in self._told.barren:
            return False
        # One that is named like any number is one of Orbax's if it has a marker.
        names = self._inside(path)
        marked = NUMBER.fullmatch(name) is not None and bool(names & set(MARKERS))
        return marked or ("metadata.json" in names and self._has_step(path))

    def _numbered_beside(self, path: str, found: list[str], level: Level) -> list[str]:
        """Return the folders that Orbax takes for its saves by their names, beside marked ones."""
        numbered = [name for name in _descended(level) if before_number(name) is not None]
        spellings = {
            before_number(name)
            for name in numbered
            if name in found and not looks_like_checkpoint(name)
            if not self._inside(join(path, name)).isdisjoint(ORBAX_MARKS)
        }
        return [e for e in numbered if e not in found and before_number(e) in spellings]

    def _inside(self, path: str) -> set[str]:
        """Return the names directly in a folder, as far as they are known."""
        level = self._names(path)
        return set() if level is None else {*level.folders, *(each.path for each in level.files)}

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
        walk = self._told.walk(path)
        if walk is None:
            kept = self._told.kept.get(path)
            self._out.seen.add(path)
            if kept is None:
                self._out.missing.walks[path] = None
                self._pending += 1
            return kept
        stamp = None
        if isinstance(walk, ListingError):
            if walk.whole:
                raise walk
            if walk.missing:
                return None
            folder = Folder(name, error=walk.why)
        else:
            self._told.contents.found(path, walk.files)
            listed = (self._told.contents.listed(path, entry) for entry in walk.files)
            folder, stamp = Folder(name, tuple(listed), walk.mtime), walk.stamp
        self._out.seen.add(path)
        if any(file.error == LATE for file in folder.files):  # the newest are read first
            self._pending += 1
            return self._told.kept.get(path)
        self._out.fresh[path] = folder, stamp
        return folder

    def _single(self, name: str) -> bool:
        own = self._want.pattern is not None and self._want.pattern.fullmatch(name) is not None
        return own or layouts.is_single(name)

    def _has_sure(self, root: Root) -> bool:
        """Tell of a file that is a checkpoint for sure, so that none is looked for below."""
        pattern = self._want.pattern
        return any(
            layouts.is_sure(file.path) or (pattern is not None and pattern.fullmatch(file.path))
            for file in root.files
        )

    def _address(self, path: str) -> str:
        return str(replace(self._want.place, path=path)).rstrip("/")

    def _parts(self, root: Root) -> set[str]:
        """Return the folder names on the way from the wanted root down to one below it."""
        return set(root.path.removeprefix(self._address(self._want.path)).split("/"))


def _inner(root: Root, level: Level) -> Iterator[tuple[str, int]]:
    """Yield the folders in a root of saves that hold more of them, and how deep they may lie.

    Lightning puts what it saves before a requeue above all its other folders.
    """
    above = any(file.path.startswith("hpc_ckpt_") for file in root.files)
    for name in _descended(level):
        if name in INNER:
            yield name, 0
        elif above and HOLDER.fullmatch(name):
            yield name, 1


def _descended(level: Level) -> list[str]:
    """Return the folders in a folder that may be looked into, in order; links lead elsewhere."""
    links = {link.name for link in level.links}
    return [
        name
        for name in sorted(level.folders)
        if name and name not in links and name[0] != "." and ASIDE.fullmatch(name) is None
    ]


def _real_ones_first(level: Level) -> Callable[[str], tuple[bool, str]]:
    """Return how names are ordered: what is there itself stands before links to it."""
    links = {link.name for link in level.links}
    return lambda name: (name in links, name)


def _once(names: Sequence[str], level: Level) -> list[str]:
    """Return each thing once, under the first of its names."""
    seen: dict[Hashable, str] = {}
    return [name for name in names if seen.setdefault(level.twins.get(name, name), name) == name]
