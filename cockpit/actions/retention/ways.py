"""What can be done to a checkpoint where it lies, on a disk or in a bucket (SPEC A-4, A-6).

In a bucket nothing can be renamed, and a deletion takes many requests. What is rejected loses its
marker to another name (a hundred bytes, and the trainer skips it). What is deleted gets a note that
lists every key before its marker goes; whoever finds the note goes on with that very list.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Awaitable, Iterable, Sequence
from datetime import UTC, datetime
from errno import ECANCELED
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from cockpit.hosts.here import call, host_of
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import FILE, SSH, Place, place_of
from cockpit.model.records import Rejected
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BATCH, PAGE, Held, Key, WritableBucket
from cockpit.runtime.http import Http
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.contents import parse_marks
from cockpit.sources.checkpoints.listing import DELETING, MARKERS, deleting_name, rejected_name
from cockpit.text.safe import clean

ASIDE: Final = "rejected-"


class ToReject(Frozen):
    """One checkpoint that is to be rejected: where it is, its step, and when it was saved."""

    path: str
    root: str
    step: int
    saved_at: float | None = None
    marker: str | None = None
    """Its marker inside its folder, where there is one."""
    single: bool = False
    """True for a checkpoint that is one file."""


def pack(to_reject: Iterable[ToReject]) -> str:
    """Return them as text for the journal."""
    return json.dumps([each.model_dump() for each in to_reject])


def unpack(text: str) -> tuple[ToReject, ...]:
    """Return what ``pack`` wrote."""
    return tuple(ToReject.model_validate(each) for each in json.loads(text))


def rejections(
    to_reject: Iterable[ToReject], at: float, by: str, reason: str
) -> tuple[Rejected, ...]:
    """Return the rejections; each holds for what was saved until its moment, in whole seconds.

    A file's clock may be ahead of ours: what lies there now is rejected all the same.
    """
    return tuple(
        Rejected(
            step=each.step,
            path=each.path,
            at=float(math.ceil(max(at, each.saved_at or at))),
            by=by,
            reason=reason,
        )
        for each in to_reject
    )


def merged(root: str, known: Iterable[Rejected], rejected: Iterable[Rejected]) -> str:
    """Return the text of a root's file of rejected checkpoints, with some more in it."""
    mine = {one.path: one for one in known}
    for one in rejected:
        if one.path not in mine or mine[one.path].at < one.at:
            mine[one.path] = one
    entries = [
        {
            "name": one.path.rpartition("/")[2],
            "step": one.step,
            "at": one.at,
            "by": one.by,
            "reason": one.reason,
        }
        for one in sorted(mine.values(), key=lambda one: (one.step, one.path))
    ]
    return json.dumps({"schema": 1, "rejected": entries}, indent=1) + "\n"


def day_of(at: float) -> str:
    """Return the day of an instant, as it stands in names (UTC)."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")


class RootError(Exception):
    """It was left alone; the text is one line that says why."""


class RootLostError(Exception):
    """It is not known whether it was done; the text is one line."""


class Access(NamedTuple):
    """What this machine may do in a root; ``trouble`` is one line where that is not enough."""

    trouble: str | None = None
    note: str | None = None
    """What is worth knowing before something is deleted there (versions are kept)."""


class Move(NamedTuple):
    """One rename, as the journal has it: from where to where, as addresses."""

    was: str
    target: str


class Half(NamedTuple):
    """What an earlier clean-up has left half deleted: where, and its bytes."""

    path: str
    size: int | None


class Ways(Protocol):
    """Acts on the roots of one system."""

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Prove by doing that the root takes a file, and lets one be deleted."""

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Write what is rejected into the root itself, beside what stands there."""

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return why one of them cannot be moved out of the trainer's sight, if that is so."""

    def moves(self, each: ToReject) -> bool:
        """Tell whether there is something to move: what no trainer can load stays."""

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return the marker that a move renames and its new name; ``None``: it moves all."""

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return where it would be moved: a free place, or where a former move has begun."""

    async def move(self, each: Move) -> None:
        """Move it: nothing is overwritten, and moving back undoes it."""

    async def has_moved(self, each: Move) -> bool:
        """Tell whether it lies at its target, and nothing where it was."""

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return what tells the checkpoint from another one that takes its place."""

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Delete the checkpoint if it is still what it was; it is never half of a whole one."""

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return what was half deleted and is not listed as a checkpoint."""

    async def gone(self, path: str) -> bool:
        """Tell whether nothing of it is there any more."""


DEADLINE: Final = 20.0
DELETE_WITHIN: Final = 3600.0
"""Seconds for one checkpoint: a large one on a network file system takes its time."""
TRIES: Final = 5
ASIDES: Final = 100


class FolderWays:
    """Acts on folders of one machine (``host`` ``None``: of this one).

    ``roots`` are the run's own, below which it may delete.
    """

    def __init__(self, host: str | None, roots: Sequence[Place]) -> None:
        self._host = host
        self._roots = self._own(roots)

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Prove that the root takes a folder and lets it go."""
        try:
            why = await self._do("why_not_movable", root=root.path, paths=[])
        except (RootError, RootLostError) as error:
            return Access(str(error))
        return Access(None if why is None else self._said(why))

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Replace the root's own file if nobody has since it was read, a few times."""
        wanted, folder = tuple(rejected), f"{root.path.rstrip('/')}/{FOLDER}"
        for _ in range(TRIES):
            was = await self._do("read_whole", path=f"{folder}/{NAME}")
            try:
                content = b"" if was is None else was.encode("utf-8", "surrogateescape")
                known = () if was is None else parse_marks(str(root), content)
            except ValueError as error:
                raise RootError(str(error)) from error
            text = merged(str(root), known, wanted)
            if text == was or await self._do(
                "put_if", folder=folder, name=NAME, was=was, text=text
            ):
                return
        raise RootError(f"{root}/{FOLDER}/{NAME} keeps being changed by others")

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return why one of them cannot be renamed inside its root, if that is so."""
        for root in dict.fromkeys(each.root for each in to_reject):
            paths = [place_of(each.path).path for each in to_reject if each.root == root]
            why = await self._do("why_not_movable", root=place_of(root).path, paths=paths)
            if why is not None:
                return self._said(why)
        return None

    def moves(self, each: ToReject) -> bool:
        """Tell that every folder can be renamed."""
        return True

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return nothing: all of it moves."""
        return None

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return a free place in ``<root>/rejected-<date>/``, or in that day's next folder."""
        name, day = each.path.rstrip("/").rpartition("/")[2], day_of(at)
        root = place_of(each.root).path.rstrip("/")
        folders = [f"{root}/{ASIDE}{day}{f'-{n}' if n > 1 else ''}" for n in range(1, ASIDES)]
        target = await self._do("free_place", folders=folders, name=name)
        if target is None:
            raise RootError(f"{each.root}: {ASIDES} folders {ASIDE}{day} hold a {name}")
        return Move(each.path, self._address(target))

    async def move(self, each: Move) -> None:
        """Rename."""
        await self._do("move_save", path=place_of(each.was).path, target=place_of(each.target).path)

    async def has_moved(self, each: Move) -> bool:
        """Tell whether the rename has happened."""
        paths = [place_of(each.was).path, place_of(each.target).path]
        return bool(await self._do("names_there", paths=paths) == [False, True])

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return its inode and times, and those of its markers."""
        found = await self._do(
            "save_identity", path=place_of(path).path, markers=[*MARKERS, *markers]
        )
        return json.dumps(found, sort_keys=True)

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Rename it, then its marker goes, then its data: there, and looked at just before."""
        place, known = place_of(path), json.loads(was)
        if not any(root.contains(place) for root in self._roots):
            raise RootError(f"{path} is not inside a checkpoint root of this run")
        await self._do(
            "delete_save", deadline=DELETE_WITHIN, path=place.path,
            roots=[root.path for root in self._roots], was=known, plan=plan,
            markers=[*MARKERS, *markers, *(name for name, *_ in known["markers"])],
        )  # fmt: skip

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return the folders whose deletion was begun."""
        paths = [root.path for root in self._own(roots)]
        found = await self._do("half_deleted", roots=paths) if paths else []
        return [Half(self._address(path), size) for path, size in found]

    async def gone(self, path: str) -> bool:
        """Tell whether nothing has that name, nor the one it has while it is deleted."""
        return bool(await self._do("nothing_left", path=place_of(path).path))

    def _own(self, roots: Iterable[Place]) -> list[Place]:
        mine = (root for root in roots if root.here or root.scheme == SSH)
        return [root for root in mine if host_of(root) == self._host]

    def _address(self, path: str) -> str:
        return str(Place(FILE, "", path) if self._host is None else Place(SSH, self._host, path))

    def _said(self, why: Sequence[str]) -> str:
        return clean(f"{self._address(why[0])} {why[1]}", 500)

    async def _do(self, function: str, deadline: float = DEADLINE, **arguments: object) -> Any:  # noqa: ANN401 - as its functions
        try:
            return await call(
                self._host, "the checkpoint root", function, deadline=deadline, **arguments
            )
        except RemoteError as error:
            kind = RootLostError if error.sent else RootError
            raise kind(clean(error, 500)) from error
        except OSError as error:
            where = self._address(str(error.filename)) if error.filename else "the root"
            if error.errno == ECANCELED:
                raise RootError(clean(f"{where} {error.strerror}", 500)) from error
            why = (error.strerror or "cannot be changed").lower()
            raise RootError(clean(f"{where}: {why}", 500)) from error


T = TypeVar("T")
SMALL: Final = 16 << 20
"""Bytes that a marker may have to be copied through this machine."""
MOST: Final = 20 * PAGE
"""Keys of one checkpoint at most."""
CLOCK_WITHIN: Final = 2.5
INSTEAD: Final = b'{"cockpit": "moved aside or deleted; no step here"}\n'
"""What stands for a marker between its last moment and its deletion: no trainer loads it."""
TRY: Final = "try"
_LOST: Final = (ErrorKind.TIMEOUT, ErrorKind.REFUSED, ErrorKind.RATE_LIMITED)


class StoreIdentity(NamedTuple):
    """What tells a checkpoint in a bucket from another one: markers, count and bytes of its keys.

    ``digest`` is of every key with its tag; ``note`` names the list of a deletion that was begun.
    """

    keys: int
    bytes: int
    digest: str
    note: str | None


class StoreWays:
    """Acts on one bucket."""

    def __init__(self, scheme: str, name: str, clock: Clock) -> None:
        http = Http(clock, deadline=CLOCK_WITHIN)
        self._bucket = WritableBucket(scheme, name, clock, http)
        self._tried: dict[str, Held | None] = {}
        """Where a key of our own was put a moment ago, by this very plan."""
        self._begun: dict[Move, tuple[Held | None, Held | None]] = {}
        """A marker and its copy as they were read when its new name was chosen."""

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Put a small key of our own below the root, and delete it again."""
        key, text = _join(root.path, FOLDER, TRY), b"the cockpit may write here\n"
        try:
            if key not in self._tried and not await self._try(key, text):
                return Access(f"{root}: another cockpit is testing it right now: look again")
            held = self._tried[key]
            if delete:
                del self._tried[key]
                await self._bucket.delete_own(key, text)
        except BucketError as error:
            return Access(str(error))
        versions = held is not None and held.version and self._bucket.scheme == "s3"
        note = f"{root} keeps versions: deleted objects still take up space" if versions else None
        return Access(note=note)

    async def _try(self, key: str, text: bytes) -> bool:
        now = await self._bucket.get(key, SMALL)
        put = self._bucket.put_new(key, text) if now is None else self._again(key, text, now)
        if not await put:
            return False
        self._tried[key] = await self._bucket.head(key)
        return True

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Put the root's file by compare-and-swap, until nobody has come between."""
        key, wanted = _join(root.path, FOLDER, NAME), tuple(rejected)
        for _ in range(TRIES):
            now = await _asked(self._bucket.get(key, SMALL))
            try:
                known = () if now is None else parse_marks(str(root), now.data)
            except ValueError as error:
                raise RootError(str(error)) from error
            data = merged(str(root), known, wanted).encode()
            if now is not None and now.data == data:
                return
            put = self._bucket.put_new(key, data) if now is None else self._again(key, data, now)
            if await _asked(put):
                return
        raise RootError(f"{root}/{FOLDER}/{NAME} keeps being changed by others")

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return which of them is no folder with a marker of its own, or a missing right."""
        for each in to_reject:
            if each.single:
                return f"{each.path} is one object, and objects are not renamed in a bucket"
            if each.marker is not None and "/" in each.marker:
                return f"{each.path} has no marker of its own"
        for root in dict.fromkeys(each.root for each in to_reject if each.marker is not None):
            access = await self.access(place_of(root), delete=True)
            if access.trouble is not None:
                return access.trouble
        return None

    def moves(self, each: ToReject) -> bool:
        """Tell whether it has a marker."""
        return each.marker is not None

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return the marker and what it would be called."""
        return None if each.marker is None else (each.marker, rejected_name(each.marker, at))

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return a free name for the marker, or the one under which its copy lies already."""
        if each.marker is None:
            raise RootError(f"{each.path} has no marker")
        was = f"{each.path.rstrip('/')}/{each.marker}"
        marker = await _asked(self._bucket.get(_key(was), SMALL))
        for count in range(1, ASIDES):
            target = f"{each.path.rstrip('/')}/{rejected_name(each.marker, at, count)}"
            there = await _asked(self._bucket.get(_key(target), SMALL))
            begun = there is not None and there.data and (_passing(marker) or _same(there, marker))
            if there is None or begun:
                move = Move(was, target)
                self._begun[move] = marker, there
                return move
        raise RootError(f"{each.path}: {ASIDES} markers lie there already")

    async def move(self, each: Move) -> None:
        """Copy the marker to its new name, then take it away if it is still the same.

        Every write holds only for what was read, however long ago that was.
        """
        was, target = _key(each.was), _key(each.target)
        read = self._begun.pop(each, None)
        if read is None:
            marker = await _asked(self._bucket.get(was, SMALL))
            copy = await _asked(self._bucket.get(target, SMALL))
        else:
            marker, copy = read
        if marker is None or _passing(marker):
            if copy is None or not copy.data:
                raise RootError(f"{each.was} is not there")
            if marker is not None:
                await _asked(self._bucket.delete_own(was, INSTEAD))
            return
        if not await _asked(self._bucket.put_new(target, marker.data)):
            raise RootError(f"{each.target} is there already")
        try:
            taken = await self._bucket.take_away(was, marker, INSTEAD)
        except BucketError as error:
            if error.kind is ErrorKind.FORBIDDEN:
                await self._void(target)
            raise _told(error) from error
        if not taken:
            raise RootError(f"{each.was} has changed since it was read")

    async def has_moved(self, each: Move) -> bool:
        """Tell whether the marker lies under its new name only."""
        copy = await _asked(self._bucket.get(_key(each.target), SMALL))
        there = await _asked(self._bucket.head(_key(each.was)))
        return copy is not None and bool(copy.data) and there is None

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return how many keys and bytes there are, and a digest of them with their tags."""
        return json.dumps(_identity(await self._keys(path))._asdict(), sort_keys=True)

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Write the list of its keys beside them; then the marker goes, the rest, and the list."""
        keys = await self._keys(path)
        if json.dumps(_identity(keys)._asdict(), sort_keys=True) != was:
            raise RootError(f"{path} has changed since it was listed")
        names = dict.fromkeys(name for name in (*markers, *MARKERS) if name in keys)
        known = _identity(keys).note
        if known is None:
            note = _join(_key(path), deleting_name(next(iter(names), None), plan))
            listed = {"schema": 1, "keys": {name: key.tag for name, key in keys.items()}}
            text = json.dumps(listed).encode()
            if not await _asked(self._bucket.put_new(note, text)):
                raise RootError(f"{path}: a list of its deletion is there already")
            going = dict(keys)
        else:
            note, going, text = await self._listed(path, known, keys)
        for name in names:
            await self._unmark(path, name, note, listed=name in going)
        rest = [_join(_key(path), name) for name in going if name not in names]
        for at in range(0, len(rest), BATCH):
            await _asked(self._bucket.delete(rest[at : at + BATCH]))
        await _asked(self._bucket.delete_own(note, text))

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return nothing: what is half deleted there is listed as a checkpoint that is."""
        return []

    async def gone(self, path: str) -> bool:
        """Tell whether no key begins with it any more."""
        found: list[Key] = []
        await _asked(self._bucket.keys(_key(path), 1, found))
        if not found:
            await _asked(self._bucket.see_nothing(_key(path)))
        return not found

    async def _again(self, key: str, data: bytes, was: Held) -> bool:
        return was.data == data or await self._bucket.replace(key, data, was)

    async def _keys(self, path: str) -> dict[str, Key]:
        """Return the keys of a checkpoint by their names below it."""
        prefix = _key(path)
        found: list[Key] = []
        if not await _asked(self._bucket.keys(prefix, MOST, found)):
            raise RootError(f"{path} has more than {MOST:,} keys")
        cut = len(prefix) + 1
        keys = {key.path[cut:]: key for key in found if key.path != prefix}
        if not keys:
            raise RootError(f"{path} is not a folder of keys: left alone")
        return keys

    async def _listed(
        self, path: str, name: str, keys: dict[str, Key]
    ) -> tuple[str, dict[str, Key], bytes]:
        """Return the list that a former clean-up wrote, and what of it still is as it was."""
        note = _join(_key(path), name)
        held = await _asked(self._bucket.get(note, SMALL))
        try:
            tags = json.loads(held.data if held is not None else b"")["keys"]
            going = {n: key for n, key in keys.items() if n != name and tags.get(n) == key.tag}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            text = f"{path}/{name} cannot be understood: what it lists is not deleted"
            raise RootError(text) from error
        return note, going, held.data if held is not None else b""

    async def _unmark(self, path: str, name: str, note: str, *, listed: bool) -> None:
        """Take a marker away: from now on nobody takes what is left for a checkpoint.

        One that is not in the list is that of a later save, unless we have put it there.
        """
        key = _join(_key(path), name)
        held = await _asked(self._bucket.get(key, SMALL))
        if held is None:
            return
        if not listed and not _passing(held):
            raise RootError(f"{path}/{name} was saved since its deletion was begun")
        try:
            if _passing(held):
                gone = await self._bucket.delete_own(key, INSTEAD)
            else:
                gone = await self._bucket.take_away(key, held, INSTEAD)
        except BucketError as error:
            if error.kind is ErrorKind.FORBIDDEN:
                await self._void(note)
            raise _told(error) from error
        if not gone:
            raise RootError(f"{path}/{name} has changed since it was listed")

    async def _void(self, key: str) -> None:
        """Empty a note whose deed was refused, where nothing can be deleted: it says nothing."""
        held = await _asked(self._bucket.get(key, SMALL))
        if held is not None:
            await _asked(self._bucket.replace(key, b"", held))


def _identity(keys: dict[str, Key]) -> StoreIdentity:
    rows = "\n".join(f"{name}\0{key.size}\0{key.tag}" for name, key in sorted(keys.items()))
    digest = hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest()
    notes = [name for name, key in keys.items() if key.size and DELETING.fullmatch(name)]
    size = sum(key.size for key in keys.values())
    return StoreIdentity(len(keys), size, digest, max(notes, default=None))


def _passing(held: Held | None) -> bool:
    return held is not None and held.data == INSTEAD


def _same(one: Held, other: Held | None) -> bool:
    return other is not None and one.data == other.data


def _key(address: str) -> str:
    return place_of(address).path.strip("/")


def _join(*parts: str) -> str:
    return "/".join(filter(None, (part.strip("/") for part in parts)))


async def _asked(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except BucketError as error:
        raise _told(error) from error


def _told(error: BucketError) -> RootError | RootLostError:
    return (RootLostError if error.kind in _LOST else RootError)(str(error))
