"""What lies away from this machine, listed in bulk; the small files in it which are read."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Checkpoint
from cockpit.model.records import Rejected
from cockpit.runtime.bucket_client import is_archived
from cockpit.runtime.mounts import open_regular, read_text
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints import listing
from cockpit.sources.checkpoints.archive import ArchiveSays, Pread, archive_says, legacy_says
from cockpit.text.logbook_lines import read_rejections
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


class ListingError(Exception):
    """Why something could not be listed or read; ``whole``: nothing else there can be either.

    ``missing``: nothing is there (yet). ``why`` says it without where.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        whole: bool = True,
        missing: bool = False,
        why: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.whole = whole
        self.missing = missing
        self.why = why or message


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

    ``unread`` says which entries there could not be read, and why. ``links`` are the links in it,
    ``above`` those beside it with where they lead in the end, ``real`` is its own path with all
    links followed. ``twins`` tells, by name, what is there under several names.
    """

    files: tuple[Entry, ...]
    folders: tuple[str, ...]
    unread: tuple[str, ...] = ()
    links: tuple[listing.Link, ...] = ()
    above: tuple[tuple[str, str], ...] = ()
    twins: Mapping[str, Hashable] = {}
    real: str = ""


class Stamp(NamedTuple):
    """What tells of a tree that something in it has changed: the times of ``names`` in it."""

    names: tuple[str, ...]
    value: int


class Walk(NamedTuple):
    """Every file below a folder; when the folder itself was changed last, where that is told."""

    files: tuple[Entry, ...]
    mtime: float | None = None
    stamp: Stamp | None = None


NO_STAMPS: Final[Mapping[str, Stamp]] = {}


class Piece(NamedTuple):
    """Bytes of one file; ``length`` lies within it, ``whole``: it is all of it."""

    path: str
    start: int
    length: int
    whole: bool = False


class Fetched(Protocol):
    """What has been listed, by path; ``None`` for what was not, or not in time."""

    @property
    def changed(self) -> Collection[str]:
        """Trees that are known to have changed."""

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly in a folder."""

    def walk(self, path: str) -> Walk | ListingError | None:
        """Return every file below a folder."""


class Limits(NamedTuple):
    """How much of an endpoint is looked at anew at each look: what a trip to it costs.

    ``unfinished`` checkpoints are listed; of the complete ones ``rotation``, or, where that is 0,
    each after ``WALK_EVERY`` looks. For ``barren`` looks a folder without checkpoints is left
    alone. ``archives`` is how many checkpoints of one file are read. So many ``rounds`` are made
    of what is missing: names three levels deep, files, their contents. Of many new checkpoints
    the ``newest`` come first, with their markers; then ``growth`` times as many in each round.
    """

    unfinished: int
    rotation: int
    barren: int
    archives: int
    rounds: int
    newest: int
    growth: int


AWAY: Final = Limits(64, 4, 5, 16, 8, 6, 100_000)
HERE: Final = Limits(100_000, 0, 0, 100_000, 100, 128, 4)


class Tree(Protocol):
    """One endpoint. ``until`` is monotonic; nothing is asked for beyond it."""

    @property
    def limits(self) -> Limits:
        """How much of it is looked at anew."""

    async def fetch(
        self,
        levels: Collection[str],
        walks: Sequence[str],
        until: float,
        markers: Collection[str] = (),
        stamps: Mapping[str, Stamp] = NO_STAMPS,
    ) -> Fetched:
        """List some folders, and all that is below others, the most wanted first.

        ``stamps`` are of trees that are known: which of them have changed is told where that is
        cheap. ``markers`` are the files whose change counts, too.
        """

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""

    async def opened(self, files: Sequence[Entry], until: float) -> Mapping[str, Opened]:
        """Return what files that are checkpoints say of themselves, by path."""


def join(path: str, name: str) -> str:
    """Return the path of something in a folder."""
    return f"{path.rstrip('/')}/{name}" if path else name


@dataclass
class TreeListing:
    """Listings that were asked for one by one."""

    levels: dict[str, Level | ListingError] = field(default_factory=dict)
    walks: dict[str, Walk | ListingError] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def level(self, path: str) -> Level | ListingError | None:
        """Return what lies directly in a folder."""
        return self.levels.get(path)

    def walk(self, path: str) -> Walk | ListingError | None:
        """Return every file below a folder."""
        return self.walks.get(path)


_NUMBER: Final = re.compile(r"\d{1,18}")


def latest(path: str) -> tuple[bool, int]:
    """Sort names without a number first, then the highest number (a step, in every layout)."""
    found = _NUMBER.search(path.rpartition("/")[2])
    return (found is not None, 0 if found is None else -int(found[0]))


REJECTED_FOLDER: Final = ".cockpit"
REJECTED_NAME: Final = "rejected.json"
MARKS: Final = 4 << 20
"""Bytes of it that are read at most."""
_PATH_LIMIT: Final = 4096


def rejection_of(item: Checkpoint, rejected: Iterable[Rejected]) -> Rejected | None:
    """Return the rejection that ``item`` falls under: its path, saved before it was rejected.

    One whose moment is not known (0.0) holds for whatever lies there.
    """
    saved = item.touched_at if item.saved_at is None else item.saved_at
    matching = (one for one in rejected if one.path.rstrip("/") == item.path)
    return next((one for one in matching if saved is None or not one.at or saved <= one.at), None)


def parse_marks(root: str, raw: bytes) -> tuple[Rejected, ...]:
    """Return what the bytes of ``<root>/.cockpit/rejected.json`` say.

    Raises ``ValueError`` where that cannot be understood: then it is not known which checkpoints
    are rejected.
    """
    path = f"{root.rstrip('/')}/{REJECTED_FOLDER}/{REJECTED_NAME}"
    try:
        listed = json.loads(raw)["rejected"]
        return tuple(_mark(root, one) for one in listed)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = f"{path} cannot be parsed: which checkpoints are rejected is unknown; repair it"
        raise ValueError(clean(text, _PATH_LIMIT)) from error


def _mark(root: str, one: dict[str, Any]) -> Rejected:
    name = one["name"]
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError("an invalid name")
    return Rejected(
        step=one["step"],
        path=clean(f"{root.rstrip('/')}/{name}", _PATH_LIMIT),
        at=one["at"],
        by=scrub(clean(one["by"])),
        reason=scrub(clean(one["reason"])),
    )


class Books:
    """What logbooks say of rejected checkpoints; an unchanged one is read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], tuple[Rejected, ...]]] = {}

    def rejected(self, path: str | None) -> tuple[Rejected, ...]:
        """Return the rejections in a logbook, the former ones if it cannot be read; blocking."""
        if path is None:
            return ()
        former = self._read.get(path)
        try:
            found = Path(path).stat()
            version = (found.st_mtime_ns, found.st_size)
            if former is None or former[0] != version:
                former = (version, read_rejections(read_text(Path(path))))
                self._read[path] = former
        except (OSError, ValueError):
            pass  # the records facet says what is wrong with the logbook
        return () if former is None else former[1]


WHOLE: Final = 1 << 20
"""Bytes of a marker that are read at most."""
HEAD: Final = 4096
"""First bytes of a trainer's state that are read: the best checkpoint stands among them."""
BLOCK: Final = 1 << 16
PROBED_FOR: Final = 20
"""Looks for which data that could be read is taken to be readable still."""
AT_ONCE: Final = 8
"""Checkpoints of one file that are read at the same time."""
LATE: Final = "no answer in time"


class Opened(NamedTuple):
    """What a checkpoint of one file says of itself: its first and last bytes, and its pickle."""

    ends: bytes | None = None
    error: str | None = None
    inside: ArchiveSays | None = None


class _Read(NamedTuple):
    tag: str
    content: bytes | None = None
    error: str | None = None
    inside: ArchiveSays | None = None
    state: listing.TrainerState | None = None


class Contents:
    """What has been read of the files at one endpoint, and what still is to be."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[str, _Read] = {}
        self._markers: Collection[str] = ()
        self.missing: dict[str, Entry] = {}
        """Files to be read, by their whole path."""
        self._single: set[str] = set()
        self._probes: dict[str, Entry] = {}
        """The biggest file of each folder."""
        self._probed: dict[str, int] = {}
        """Those of them of which a byte was read, and at which look."""
        self._looks = 0

    def begin(self, markers: Collection[str]) -> None:
        """Begin a look; ``markers`` are names of layouts of somebody's own."""
        self._markers = markers
        self.missing = {}
        self._known = {path: read for path, read in self._known.items() if read.error is None}
        self._looks += 1

    def found(self, folder: str, files: Iterable[Entry]) -> None:
        """Note what has been listed in a folder: by its biggest file it is found archived."""
        plain = [file for file in files if not self._telling(file.path) and file.size]
        if plain:
            self._probes[folder] = max(plain, key=lambda file: (file.size, file.path))

    def archived(self, folder: str) -> str | None:
        """Return why the data of a folder must be restored before it can be loaded, if it must.

        No listing tells it, and no tag changes with it: one byte is read now and then. Small files
        are often exempt from the rule that archives the others.
        """
        entry = self._probes.get(folder)
        if entry is None:
            return None
        path = join(folder, entry.path)
        known = self._known.get(path)
        probed = self._probed.get(path)
        again = probed is None or self._looks - probed >= PROBED_FOR
        if probed != self._looks and (again or known is None or known.tag != entry.tag):
            self._probed[path] = self._looks
            self.missing[path] = entry
        return known.error if known is not None and is_archived(known.error) else None

    def listed(
        self, folder: str, entry: Entry, *, single: bool = False, names: bool = False
    ) -> listing.Listed:
        """Return a file of a folder with what has been read of it; else it is noted as missing.

        ``single``: the file is a checkpoint by itself; ``names``: it may name one.
        """
        plain = listing.Listed(entry.path, entry.size, entry.mtime)
        if not single and not names and not self._telling(entry.path):
            return plain
        path = join(folder, entry.path)
        known = self._known.get(path)
        if known is None or known.tag != entry.tag:
            self.missing[path] = entry
            if single:
                self._single.add(path)
            return plain
        said = (known.content, known.error, known.inside, known.state)
        return listing.Listed(entry.path, entry.size, entry.mtime, *said)

    async def fill(self, until: float) -> None:
        """Read what is missing, as far as the time lasts; the rest is told to be late.

        Raises ``ListingError`` when nothing there can be read any more.
        """
        waiting = sorted(self.missing, key=lambda path: latest(path.rpartition("/")[0]))
        missing = {path: self.missing[path] for path in waiting}
        self.missing = {}
        pieces = {path: self._piece(path, entry) for path, entry in missing.items()}
        small = {p: piece for p, piece in pieces.items() if not self._archive(p, missing[p])}
        heads = {path: head for path in small if (head := _head(path, missing[path])) is not None}
        wanted = [each for each in (*small.values(), *heads.values()) if each.length]
        found = await self._tree.read(wanted, until)
        for path, piece in small.items():
            said = found.get(piece, b"" if piece.length == 0 else None)
            read = _taken(missing[path].tag, said)
            head = heads.get(path)
            if head is not None:
                begin = found.get(head, b"" if head.length == 0 else None)
                read = _with_state(read, begin, head)
            self._known[path] = read
        newest = sorted(pieces.keys() - small.keys(), key=lambda p: missing[p].mtime, reverse=True)
        now = newest[: self._tree.limits.archives]
        files = [missing[path]._replace(path=path) for path in now]
        opened = await self._tree.opened(files, until)
        for path in newest:
            one = opened.get(path, Opened(error=LATE))
            self._known[path] = _Read(missing[path].tag, one.ends, one.error, one.inside)

    def forget(self, folders: Collection[str]) -> None:
        """Forget what was read in folders that are gone."""
        gone = tuple(f"{folder}/" for folder in folders)
        if gone:
            kept = self._known.items()
            self._known = {path: read for path, read in kept if not path.startswith(gone)}
            for folder in folders:
                entry = self._probes.pop(folder, None)
                self._probed.pop(join(folder, entry.path) if entry is not None else "", None)

    def _telling(self, path: str) -> bool:
        """Tell of a file whose content says something (``path`` is relative to its folder)."""
        named = path in _TELLING or listing.is_pointer(path) or path in self._markers
        return named or _first_shard(path)

    def _piece(self, path: str, entry: Entry) -> Piece:
        if self._probed.get(path) == self._looks:
            return Piece(path, 0, 1)
        if entry.path == listing.TRAINER_STATE:
            length = min(entry.size, listing.TRAINER_STATE_BYTES)
            return Piece(path, entry.size - length, length)
        most = MARKS if entry.path == REJECTED_NAME else WHOLE
        return Piece(path, 0, min(entry.size, most), entry.size <= most)

    def _archive(self, path: str, entry: Entry) -> bool:
        return path in self._single or _first_shard(entry.path)


_TELLING: Final = frozenset(
    ("metadata.json", listing.VEOMNI_MANIFEST, listing.TRAINER_STATE, REJECTED_NAME)
)


def _first_shard(path: str) -> bool:
    """Tell of the first rank's part of an optimizer, which says how many parts there are."""
    shard = listing.ZERO_SHARD.fullmatch(path)
    return shard is not None and int(shard[2]) == 0


def _head(path: str, entry: Entry) -> Piece | None:
    """Return the beginning of a trainer's state, which names the best checkpoint."""
    if entry.path != listing.TRAINER_STATE:
        return None
    return Piece(path, 0, min(entry.size, HEAD), entry.size <= HEAD)


def _with_state(read: _Read, said: bytes | ListingError | None, head: Piece) -> _Read:
    """Return what was read of a trainer's state with what its beginning says."""
    if read.error is not None:
        return read
    if not isinstance(said, bytes):
        return read._replace(error=LATE if said is None else str(said))
    return read._replace(state=listing.read_state(said, whole=head.whole))


def _taken(tag: str, said: bytes | ListingError | None) -> _Read:
    if isinstance(said, ListingError):
        if said.whole:
            raise said
        return _Read(tag, error=str(said))
    return _Read(tag, said) if said is not None else _Read(tag, error=LATE)


def opened_here(file: Entry) -> Opened:
    """Return what a checkpoint of one file says of itself; blocking."""
    try:
        with open_regular(file.path) as (handle, found):
            return _told(lambda count, at: os.pread(handle, count, at), found.st_size)
    except OSError as error:
        return Opened(error=(error.strerror or "cannot be read").lower())


async def opened_away(tree: Tree, files: Sequence[Entry], until: float) -> dict[str, Opened]:
    """Return that of files at an endpoint, which are read in blocks, some at once."""
    loop, found = asyncio.get_running_loop(), dict[str, Opened]()

    async def one(file: Entry) -> None:
        blocks = _Blocks(tree, file.path, file.size, until, loop)
        left = max(0.1, until - time.monotonic())
        try:
            found[file.path] = await offload(blocks.opened, deadline=left, key=object())
        except TimeoutError:
            found[file.path] = Opened(error=LATE)
        except OSError as error:
            found[file.path] = Opened(error=str(error))

    for at in range(0, len(files), AT_ONCE):
        await asyncio.gather(*map(one, files[at : at + AT_ONCE]))
    return found


def _told(pread: Pread, size: int) -> Opened:
    ends = pread(4, 0) + pread(22, max(0, size - 22))
    zipped = ends[:4] == b"PK\x03\x04" and b"PK\x05\x06" in ends[4:]
    return Opened(ends, inside=archive_says(pread, size) if zipped else legacy_says(pread))


class _Blocks:
    """A file away from here, read from a thread in blocks that are kept."""

    def __init__(
        self, tree: Tree, path: str, size: int, until: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._tree, self._path, self._size = tree, path, size
        self._until, self._loop = until, loop
        self._blocks: dict[int, bytes] = {}
        self._failed: OSError | None = None

    def opened(self) -> Opened:
        """Return what the file says of itself; blocking, raises ``OSError``."""
        said = _told(self.pread, self._size)
        if self._failed is not None:
            raise self._failed
        return said

    def pread(self, count: int, at: int) -> bytes:
        """Return so many bytes from a place on; raises ``OSError``."""
        end = min(at + count, self._size)
        if at >= end:
            return b""
        first, last = at // BLOCK, (end - 1) // BLOCK
        self._get([n for n in range(first, last + 1) if n not in self._blocks])
        data = b"".join(self._blocks[number] for number in range(first, last + 1))
        return data[at - first * BLOCK : end - first * BLOCK]

    def _get(self, numbers: list[int]) -> None:
        if not numbers:
            return
        start = numbers[0] * BLOCK
        length = min(self._size, (numbers[-1] + 1) * BLOCK) - start
        piece = Piece(self._path, start, length)
        asked = asyncio.run_coroutine_threadsafe(self._tree.read([piece], self._until), self._loop)
        try:
            said = asked.result(timeout=max(0.1, self._until - time.monotonic()) + 1.0).get(piece)
        except TimeoutError:
            said = None
        if not isinstance(said, bytes) or len(said) != length:
            self._failed = OSError(str(said) if isinstance(said, ListingError) else LATE)
            raise self._failed
        for number in range(numbers[0], numbers[-1] + 1):
            self._blocks[number] = said[(number - numbers[0]) * BLOCK :][:BLOCK]


def late(where: str) -> ListingError:
    """Return that there was no time for a listing."""
    return ListingError(ErrorKind.TIMEOUT, f"{where}: {LATE}", whole=False)
