"""Lists checkpoint roots on this machine, cheaply when nothing has changed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.observed import CheckpointState, CheckpointsValue
from cockpit.runtime.mounts import open_regular
from cockpit.sources.checkpoints.archive import ArchiveSays, read_archive, read_legacy
from cockpit.sources.checkpoints.findings import merged_ranks
from cockpit.sources.checkpoints.layouts import is_beside, is_named, is_single, is_sure
from cockpit.sources.checkpoints.listing import (
    INNER,
    MARKERS,
    NUMBER,
    STEP_NAME,
    TRAINER_STATE,
    TRAINER_STATE_BYTES,
    ZERO_SHARD,
    Folder,
    Lead,
    Link,
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
    read_state,
)

NEWEST: Final = 128
"""Folders of the highest numbers that every look begins with, whatever time that takes."""
SECONDS: Final = 1.0
"""Seconds that a look at one root takes beyond them."""
_NUMBER: Final = re.compile(r"\d{1,18}")


@dataclass
class Turns:
    """Remembers when each folder of roots with very many was looked at last.

    Without ``seconds`` every folder has its turn at every look.
    """

    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    _looks: int = 0
    _last: dict[str, dict[str, int]] = field(default_factory=dict)

    def order(self, root: str, entries: Sequence[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Yield the folders of ``root`` whose turn it is, until the time is over."""
        if len(entries) <= NEWEST:
            self._last.pop(root, None)
            yield from entries
            return
        self._looks += 1
        former = self._last.get(root, {})
        last = self._last[root] = {
            entry.path: former[entry.path] for entry in entries if entry.path in former
        }
        ranked = sorted(entries, key=_rank)
        rest = sorted(ranked[NEWEST:], key=lambda entry: last.get(entry.path, 0))
        until = None if self.seconds is None else self.clock() + self.seconds
        for at, entry in enumerate((*ranked[:NEWEST], *rest)):
            if until is not None and at >= NEWEST and self.clock() >= until:
                return
            last[entry.path] = self._looks
            yield entry

    def unseen(self, root: str, entries: Sequence[os.DirEntry[str]]) -> int:
        """Return how many of the folders have never had their turn."""
        seen = self._last.get(root)
        return 0 if seen is None else sum(entry.path not in seen for entry in entries)


def _rank(entry: os.DirEntry[str]) -> tuple[bool, int]:
    """Sort names without a number first, then the highest number (a step, in every layout)."""
    found = _NUMBER.search(entry.name)
    return (found is not None, 0 if found is None else -int(found[0]))


DEPTH: Final = 2
"""How many levels below a given path checkpoints are looked for (``<root>/<run id>/step-N``)."""
HOLDER: Final = re.compile(r"lightning_logs|checkpoints?|ckpts?|weights")
"""Folders that a trainer itself puts around its saves: they do not count as a level."""
NAMES: Final = 64
"""Files in a root at most that are asked whether they name a checkpoint."""
FAN: Final = 200
"""Subfolders at most that are looked into on the way down."""


def below(name: str, depth: int) -> int | None:
    """Return how many levels are left below a folder of this name, ``None`` for too few."""
    left = depth if HOLDER.fullmatch(name) else depth - 1
    return left if left >= 0 else None


ASIDE: Final = re.compile(r"\.cockpit|rejected-.*|.*\.deleting-[0-9a-f]{6,}")
"""What was moved aside or is being deleted: never a checkpoint, whatever lies in it."""
CONTENT: Final = 1 << 20
WATCHED: Final = 32
"""Folders inside a checkpoint whose times are looked at each time."""
WALK_EVERY: Final = 20
"""Looks after which a complete checkpoint is walked anew, whatever its times say."""

Signature = tuple[tuple[str, int, int], ...]


class _Kept(NamedTuple):
    signature: Signature
    folder: Folder
    settled: bool
    inner: tuple[str, ...] = ()
    looks: int = 0


@dataclass
class Scanner:
    """Lists the roots of one run, and remembers its complete checkpoints.

    ``pattern`` and ``markers`` are names of the run file's own layout; ``prefer`` names the
    subfolder to take where a root holds many runs.
    """

    pattern: re.Pattern[str] | None = None
    markers: tuple[str, ...] = ()
    prefer: Collection[str] = ()
    turns: Turns = field(default_factory=Turns)
    """Which folders are looked at anew; the others are as they were at their last turn."""
    unjudged: int = 0
    """How many folders of the roots listed last have had no turn yet."""
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _former: dict[str, Folder] = field(default_factory=dict)
    """Folders that are not complete, as they were at their last turn."""
    _files: dict[str, tuple[tuple[int, int, int], Listed]] = field(default_factory=dict)

    def roots(self, path: str, temporary: bool | None = None) -> list[Root]:
        """Return the root at ``path``, or those below it when it holds no checkpoint itself.

        Raises ``OSError`` when ``path`` itself cannot be listed.
        """
        self.unjudged = 0
        found = merged_ranks(list(self._below(path, DEPTH)), path)
        several = len(found) > 1
        chosen = [root for root in found if several and _names(root, path) & set(self.prefer)]
        kept = chosen or found
        marked = [replace(root, temporary=temporary) for root in kept]
        return marked or [Root(path, temporary=temporary)]

    def settle(self, value: CheckpointsValue) -> None:
        """Keep what ``value`` found complete; forget what is gone or still changes."""
        complete = {item.path for item in value.items if item.state is CheckpointState.COMPLETE}
        there = {item.path for item in value.items}
        new = {path: kept.folder for path, kept in self._kept.items() if not kept.settled}
        former = {**self._former, **new} if self.turns.seconds is not None else {}
        self._kept = {
            path: kept._replace(folder=compact(kept.folder), settled=True)
            for path, kept in self._kept.items()
            if path in complete and len(kept.signature) > 1
        }
        self._former = {
            path: folder
            for path, folder in former.items()
            if path in there and path not in self._kept
        }

    def _below(self, path: str, depth: int) -> Iterator[Root]:
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        if _is_checkpoint(path, entries):
            folder = self._folder(path)
            yield Root(str(Path(path).parent), () if folder is None else (folder,))
            return
        root = self._root(path, entries)
        if root.folders or self._has_sure(root):
            yield root
            inner = (entry for entry in entries if entry.name in INNER)
            yield from (r for e in inner if _worth_descending(e) for r in self._below(e.path, 0))
            return
        found = []
        for entry in entries[:FAN]:
            left = below(entry.name, depth)
            if left is not None and _worth_descending(entry):
                with suppress(OSError):
                    found += list(self._below(entry.path, left))
        weak = root.lookalikes or any(self._single(file.path) for file in root.files)
        if weak or any(each.lookalikes for each in found):
            sure = [each for each in found if each.folders or self._has_sure(each)]
            found = sure or ([root] if weak else found)
        yield from found

    def _has_sure(self, root: Root) -> bool:
        return any(self._sure(file.path) for file in root.files)

    def _single(self, name: str) -> bool:
        own = self.pattern is not None and self.pattern.fullmatch(name) is not None
        return own or is_single(name)

    def _sure(self, name: str) -> bool:
        """Tell of a file that is a checkpoint for sure, so that none is looked for below."""
        own = self.pattern is not None and self.pattern.fullmatch(name) is not None
        return own or is_sure(name)

    def _root(self, path: str, entries: list[os.DirEntry[str]]) -> Root:
        ordered = sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
        folders = self._folders(path, [entry for entry in ordered if _may_be_one(entry)])
        files: list[Listed] = []
        seen: set[tuple[int, int]] = set()
        weak: list[Folder] = []
        for entry in ordered:
            if entry.path in folders:
                continue
            is_folder = _worth_descending(entry)
            if not is_folder and self._single(entry.name):
                files += self._one_file(entry, seen)
            elif is_pointer(entry.name) or is_beside(entry.name):
                files += _listed(entry, entry.name, self.markers)
            elif is_folder and looks_like_checkpoint(entry.name):
                continue  # its turn has not come
            elif len(weak) < FAN:
                weak += self._lookalike(entry, not folders)
        once = _once([entry for entry in ordered if entry.path in folders])
        known = tuple(folders[entry.path] for entry in once)
        links = tuple(_links(entries))
        found = Root(path, known, tuple(files), lookalikes=tuple(weak), links=links)
        return with_names(found, entries) if folders or files or weak else found

    def _lookalike(self, entry: os.DirEntry[str], alone: bool) -> Iterator[Folder]:
        """Yield what looks like a save of whatever trainer, though no known name is in it."""
        try:
            if _worth_descending(entry):
                inside = (each.name for each in os.scandir(entry.path))
                alone = alone or is_named(entry.name)
                if may_look_like_save(entry.name, inside, alone=alone):
                    folder = self._folder(entry.path)
                    yield from [folder] if folder is not None and holds_data(folder) else []
            elif file_looks_like_save(entry.name) and entry.is_file(follow_symlinks=False):
                for listed in _listed(entry, entry.name, self.markers):
                    yield Folder(entry.name, (listed,), listed.mtime, single=True)
        except OSError:
            return

    def _folders(self, root: str, entries: list[os.DirEntry[str]]) -> dict[str, Folder]:
        """Return the candidates among ``entries``, by path; if it is their turn, looked at anew."""
        found: dict[str, Folder | None] = {}
        for entry in self.turns.order(root, entries):
            found[entry.path] = self._folder(entry.path) if self._is_candidate(entry) else None
        for entry in entries:
            if entry.path not in found:
                kept = self._kept.get(entry.path)
                known = self._former.get(entry.path) if kept is None else kept.folder
                found[entry.path] = known
        self.unjudged += self.turns.unseen(root, entries)
        return {path: folder for path, folder in found.items() if folder is not None}

    def _one_file(self, entry: os.DirEntry[str], seen: set[tuple[int, int]]) -> Iterator[Listed]:
        """Yield a checkpoint that is one file, once by whatever names; read anew if changed."""
        try:
            with open_regular(entry.path) as (fd, found):
                if (found.st_dev, found.st_ino) in seen:
                    return
                seen.add((found.st_dev, found.st_ino))
                version = (found.st_ino, found.st_size, found.st_mtime_ns)
                former = self._files.get(entry.path)
                if former is None or former[0] != version:
                    ends = os.read(fd, 4) + os.pread(fd, 22, max(0, found.st_size - 22))
                    inside = read_archive(fd, found.st_size) if _is_zip(ends) else read_legacy(fd)
                    listed = Listed(entry.name, found.st_size, found.st_mtime, ends, inside=inside)
                    former = self._files[entry.path] = (version, listed)
                yield former[1]
        except FileNotFoundError:
            return
        except OSError:
            yield from _listed(entry, entry.name, self.markers)

    def _is_candidate(self, entry: os.DirEntry[str]) -> bool:
        if looks_like_checkpoint(entry.name):
            return True
        if self.pattern is not None and self.pattern.fullmatch(entry.name):
            return True
        # One that is named like any number is one of Orbax's if it has a marker.
        numbered = NUMBER.fullmatch(entry.name) is not None
        marked = numbered and any(os.path.lexists(f"{entry.path}/{name}") for name in MARKERS)
        return marked or _has_step(entry.path)

    def _folder(self, path: str) -> Folder | None:
        """Return the folder at ``path`` with all its files; ``None`` if it has just vanished."""
        kept = self._kept.get(path)
        inner = kept.inner if kept is not None else ()
        signature = self._signature(path, inner)
        same = kept is not None and kept.settled and kept.signature == signature
        if kept is not None and same and kept.looks < WALK_EVERY:
            self._kept[path] = kept._replace(looks=kept.looks + 1)
            return kept.folder
        name = Path(path).name
        try:
            mtime = Path(path).stat().st_mtime
            folder = Folder(name, tuple(_walk(path, self.markers)), mtime)
        except FileNotFoundError:
            return None
        except OSError as error:
            folder = Folder(name, error=(error.strerror or type(error).__name__).lower())
        if folder.error is None:
            inner = _inner(folder)
            self._kept[path] = _Kept(self._signature(path, inner), folder, False, inner)
        return folder

    def _signature(self, path: str, inner: tuple[str, ...]) -> Signature:
        """Return the times of the folder, of those in it and of its markers, if there are any."""
        parts = []
        for name in ("", *MARKERS, *self.markers, *inner):
            try:
                found = os.stat(f"{path}/{name}")  # noqa: PTH116 - thousands of these
            except OSError:
                continue
            parts.append((name, found.st_mtime_ns, found.st_size if name else found.st_ino))
        return tuple(parts)


def _links(entries: Collection[os.DirEntry[str]]) -> Iterator[Link]:
    """Yield the links of a root with where they lead; one whose target is away leads nowhere."""
    for entry in entries:
        with suppress(OSError):
            if entry.is_symlink():
                there = Path(entry.path).exists()
                yield Link(entry.name, str(Path(entry.path).readlink()), there)


def with_names(root: Root, entries: list[os.DirEntry[str]]) -> Root:
    """Return a root with what in and beside it names a checkpoint; blocking."""
    real = os.path.realpath(root.path)
    leads = [Lead(e.name, os.path.realpath(e.path)) for e in entries if e.is_symlink()]
    above = Path(root.path).parent
    with suppress(OSError), os.scandir(above) as beside:
        found = (entry for entry in islice(beside, FAN) if entry.is_symlink())
        leads += [Lead(f"{above.name}/{e.name}", os.path.realpath(e.path)) for e in found]
    names = [file for entry in entries for file in _naming(entry)][:NAMES]
    return replace(root, leads=tuple(leads), names=tuple(names), real=real)


def _naming(entry: os.DirEntry[str]) -> Iterator[Listed]:
    """Yield a file that may name a checkpoint, with what it says."""
    try:
        if entry.is_symlink() or not entry.is_file():
            return
        if entry.name == TRAINER_STATE:
            yield from _listed(entry, entry.name, ())
        elif may_name(entry.name, (found := entry.stat()).st_size):
            content, problem = read_part(entry.path)
            yield Listed(entry.name, found.st_size, found.st_mtime, content, problem)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Listed(entry.name, 0, 0.0, error=(error.strerror or "cannot be read").lower())


def _may_be_one(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and ASIDE.fullmatch(entry.name) is None
    except OSError:
        return False


def _once(entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """Return folders once by whatever names; one that has just vanished is none."""
    if not any(entry.is_symlink() for entry in entries):
        return entries
    seen: dict[tuple[int, int], os.DirEntry[str]] = {}
    for entry in entries:
        with suppress(OSError):
            found = entry.stat()
            seen.setdefault((found.st_dev, found.st_ino), entry)
    return list(seen.values())


def _inner(folder: Folder) -> tuple[str, ...]:
    """Return the folders inside a checkpoint, outer ones first: a file that goes shows there."""
    found = {file.path.rpartition("/")[0] for file in folder.files} - {""}
    every = {
        "/".join(parts[:n]) for p in found for parts in [p.split("/")] for n in (1, len(parts))
    }
    return tuple(sorted(every, key=lambda name: (name.count("/"), name))[:WATCHED])


def _is_zip(ends: bytes) -> bool:
    """Tell a zip that has its end from the first 4 and last 22 bytes of a file."""
    return ends[:4] == b"PK\x03\x04" and b"PK\x05\x06" in ends[4:]


def _names(root: Root, path: str) -> set[str]:
    """Return the folder names on the way from ``path`` down to ``root``."""
    below = Path(root.path)
    return set(below.relative_to(path).parts) if below.is_relative_to(path) else set()


def _is_checkpoint(path: str, entries: list[os.DirEntry[str]]) -> bool:
    """Tell whether the path that was given is one checkpoint, not a folder of checkpoints."""
    names = {entry.name for entry in entries}
    if any(map(looks_like_checkpoint, names)):
        return False
    if STEP_NAME.fullmatch(Path(path).name):
        return bool({*MARKERS, "manifest.ocdbt"} & names)
    return "metadata.json" in names and _has_step(path)


def _worth_descending(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or ASIDE.fullmatch(entry.name):
        return False
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _has_step(path: str) -> bool:
    """Tell whether ``metadata.json`` makes a folder of any name a checkpoint (as Levanter does)."""
    content, problem = read_part(f"{path}/metadata.json")
    if content is None or problem is not None:
        return False
    return read_marker(Listed("metadata.json", len(content), 0.0, content)).step is not None


def _walk(path: str, markers: Collection[str]) -> Iterator[Listed]:
    """Yield every file below ``path``; a subfolder that vanishes meanwhile is left out."""
    waiting = [("", path)]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            listing = os.scandir(folder)
        except FileNotFoundError:
            if not prefix:
                raise
            continue
        with listing:
            for entry in listing:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{prefix}{entry.name}/", entry.path))
                else:
                    yield from _listed(entry, f"{prefix}{entry.name}", markers)


def _listed(entry: os.DirEntry[str], path: str, markers: Collection[str]) -> list[Listed]:
    """Return the file as a list of one; of none when it is gone."""
    try:
        found = _stat(entry)
    except FileNotFoundError:
        return []
    content, problem, state = None, None, None
    if path in ("metadata.json", *markers) or is_pointer(path):
        content, problem = read_part(entry.path)
    elif path == TRAINER_STATE:
        content, problem = read_part(entry.path, found.st_size - TRAINER_STATE_BYTES)
        head, _ = read_part(entry.path)
        whole = found.st_size <= CONTENT
        state = None if head is None else read_state(head, whole=whole)
    inside = _inside(entry.path) if _tells_parts(path) else None
    return [Listed(path, found.st_size, found.st_mtime, content, problem, inside, state)]


def _tells_parts(path: str) -> bool:
    """Tell of the first rank's part of an optimizer, which says how many parts there are."""
    shard = ZERO_SHARD.fullmatch(path)
    return shard is not None and int(shard[2]) == 0


def _inside(path: str) -> ArchiveSays | None:
    try:
        with open_regular(path) as (fd, found):
            return read_archive(fd, found.st_size)
    except OSError:
        return None


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except FileNotFoundError:
        return entry.stat(follow_symlinks=False)


def read_part(path: str, start: int = 0) -> tuple[bytes | None, str | None]:
    """Return the bytes of a regular file from a place on, or why they cannot be read."""
    try:
        with open_regular(path) as (fd, _):
            return os.pread(fd, CONTENT, max(0, start)), None
    except OSError as error:
        return None, (error.strerror or type(error).__name__).lower()
