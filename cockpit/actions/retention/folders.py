"""Roots on this machine and on ssh hosts: rejects and deletes checkpoints there (SPEC A-4, A-6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from errno import ECANCELED
from typing import Any, Final

from cockpit.actions.retention.ways import (
    ASIDE,
    Access,
    Half,
    Move,
    RootError,
    RootLostError,
    ToReject,
    day_of,
    merged,
)
from cockpit.hosts.here import call, host_of
from cockpit.model.place import FILE, SSH, Place, place_of
from cockpit.model.records import Rejected
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.contents import parse_marks
from cockpit.sources.checkpoints.listing import MARKERS
from cockpit.text.safe import clean

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
