"""Roots on this machine: what blocks is done in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, ParamSpec, TypeVar

from cockpit.actions.retention.deleting import (
    Identity,
    NotDeletedError,
    delete,
    identity_of,
    left_over,
    nothing_left,
    size_of,
)
from cockpit.actions.roots.ways import Access, Half, Move, RootError, RootLostError
from cockpit.actions.stopping.rejecting import ToReject, mark, move, place_aside, why_not_movable
from cockpit.model.place import Place
from cockpit.model.records import Rejected
from cockpit.runtime.offload import offload

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
