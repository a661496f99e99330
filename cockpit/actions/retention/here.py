"""Roots on this machine: rejects and deletes checkpoints in threads (SPEC A-4, A-6)."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from cockpit.actions.retention.ways import (
    Access,
    Half,
    Move,
    RootError,
    RootLostError,
    ToReject,
    mark,
    move,
    place_aside,
    why_not_movable,
)
from cockpit.model.base import Frozen
from cockpit.model.place import Place
from cockpit.model.records import Rejected
from cockpit.runtime.offload import offload
from cockpit.sources.checkpoints.listing import MARKERS

LEFT: Final = re.compile(r".+\.deleting-[0-9a-f]{6,}")
"""A folder whose deletion was begun and not finished."""


class NotDeletedError(Exception):
    """It was left alone; the text is one line that says why."""


class Identity(Frozen):
    """What tells a checkpoint from another one that takes its place: its inode and its times."""

    device: int
    inode: int
    changed: int
    markers: tuple[tuple[str, int, int, int], ...] = ()


def identity_of(path: str, markers: Iterable[str] = ()) -> Identity:
    """Return what lies at ``path`` now; raises ``NotDeletedError`` for a link or nothing."""
    found = _lstat(path)
    seen = []
    for name in _inner(markers):
        try:
            inner = Path(path, name).lstat()
        except OSError:
            continue
        seen.append((name, inner.st_ino, inner.st_mtime_ns, inner.st_size))
    return Identity(
        device=found.st_dev,
        inode=found.st_ino,
        changed=found.st_mtime_ns,
        markers=tuple(seen),
    )


def delete(
    path: str, roots: Iterable[str], was: Identity, mark: str, markers: Iterable[str] = ()
) -> None:
    """Delete the checkpoint at ``path`` if it is still what it was; raises ``NotDeletedError``.

    ``mark`` names this clean-up. What was begun and cannot be finished stays under its new name.
    """
    _inside(path, roots)
    if identity_of(path, markers) != was:
        raise NotDeletedError(f"{path} has changed since it was listed")
    aside = path if LEFT.fullmatch(Path(path).name) else f"{path}.deleting-{mark}"
    try:
        if aside != path:
            if os.path.lexists(aside):
                raise NotDeletedError(f"{aside} exists already")
            Path(path).rename(aside)
        _remove(aside, markers)
    except OSError as error:
        where = error.filename or aside
        raise NotDeletedError(
            f"{where}: {(error.strerror or 'cannot be deleted').lower()}"
        ) from error


def left_over(roots: Iterable[str]) -> Iterator[str]:
    """Yield the paths under ``roots`` whose deletion was begun and not finished."""
    for root in dict.fromkeys(roots):
        try:
            names = sorted(entry.name for entry in Path(root).iterdir())
        except OSError:
            continue
        yield from (f"{root.rstrip('/')}/{name}" for name in names if LEFT.fullmatch(name))


def nothing_left(path: str) -> bool:
    """Tell whether nothing is at ``path``, and nothing half deleted that was there.

    Raises ``OSError`` where its folder cannot be looked into.
    """
    place = Path(path)
    names = [entry.name for entry in place.parent.iterdir()]
    begun = f"{place.name}.deleting-"
    return not any(
        name == place.name or (name.startswith(begun) and LEFT.fullmatch(name)) for name in names
    )


def size_of(path: str) -> int:
    """Return the bytes below ``path``; what cannot be read counts as nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue
    return total


def _remove(aside: str, markers: Iterable[str]) -> None:
    if not stat.S_ISDIR(Path(aside).lstat().st_mode):
        Path(aside).unlink()
        return
    for name in _inner(markers):
        try:
            Path(aside, name).unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
    shutil.rmtree(aside)


def _inner(markers: Iterable[str]) -> list[str]:
    """Return the markers to look for inside a folder; a name that leads out of it is none."""
    names = {*MARKERS, *markers}
    return sorted(
        name for name in names if not name.startswith("/") and ".." not in Path(name).parts
    )


def _lstat(path: str) -> os.stat_result:
    try:
        found = Path(path).lstat()
    except OSError as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise NotDeletedError(f"{path} {reason}") from error
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise NotDeletedError(f"{path} is a link or not a folder: left alone")
    return found


def _inside(path: str, roots: Iterable[str]) -> None:
    """Refuse what is not a checkpoint's place below a configured root, links followed."""
    real = os.path.realpath(path)
    for root in roots:
        top = os.path.realpath(Path(root).expanduser())
        if real != top and real.startswith(f"{top.rstrip('/')}/"):
            return
    raise NotDeletedError(f"{path} is not inside a checkpoint root of this run")


P = ParamSpec("P")
T = TypeVar("T")
DEADLINE: Final = 15.0
DELETE_WITHIN: Final = 3600.0
"""Seconds for one checkpoint: a large one on a network file system takes its time."""


class HereWays:
    """Acts on folders of this machine; ``roots`` are the run's own, below which it may delete."""

    def __init__(self, roots: Sequence[Place]) -> None:
        self._roots = tuple(root.path for root in roots if root.here)

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Return nothing against it: what is refused is told by the deed, which changes nothing."""
        return Access()

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Write the root's own file."""
        await _done(mark, root.path, rejected)

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return what speaks against a rename."""
        return await _done(why_not_movable, to_reject)

    def moves(self, each: ToReject) -> bool:
        """Tell that every folder can be renamed."""
        return True

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return nothing: all of it moves."""
        return None

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return a free place in ``<root>/rejected-<date>/``."""
        return Move(each.path, await _done(place_aside, each, at))

    async def move(self, each: Move) -> None:
        """Rename."""
        await _done(move, each.was, each.target)

    async def has_moved(self, each: Move) -> bool:
        """Tell whether the rename has happened."""
        return await _done(lambda: os.path.lexists(each.target) and not os.path.lexists(each.was))

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return its inode and times, and those of its markers."""
        return (await _done(identity_of, path, tuple(markers))).model_dump_json()

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Rename it, then its marker goes, then its data."""
        known = Identity.model_validate_json(was)
        names = {*markers, *(name for name, *_ in known.markers)}
        try:
            await offload(delete, path, self._roots, known, plan, names, deadline=DELETE_WITHIN)
        except TimeoutError as error:
            raise RootLostError(f"{path} is still being deleted") from error
        except (NotDeletedError, OSError) as error:
            raise RootError(str(error)) from error

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return the folders whose deletion was begun."""
        places = [root.path for root in roots if root.here]
        return await _done(lambda: [Half(path, size_of(path)) for path in left_over(places)])

    async def gone(self, path: str) -> bool:
        """Tell whether nothing has that name, nor the one it has while it is deleted."""
        return await _done(nothing_left, path)


async def _done(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await offload(lambda: work(*args, **kwargs), deadline=DEADLINE, key=work)
    except TimeoutError as error:
        raise RootLostError(f"this machine's disk did not answer within {DEADLINE:g} s") from error
    except NotDeletedError as error:
        raise RootError(str(error)) from error
    except OSError as error:
        why = (error.strerror or str(error) or "cannot be written").lower()
        where = f": {error.filename}" if isinstance(error.filename, str) else ""
        raise RootError(f"{why}{where}") from error
    except ValueError as error:
        raise RootError(str(error)) from error
