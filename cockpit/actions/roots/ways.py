"""What can be done to a checkpoint where it lies; every way has the same promises.

Each call has a deadline of its own. ``RootError``: it was not done and will not be.
``RootLostError``: nobody knows, it must be looked at again. All of them find what is done already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from cockpit.actions.stopping.rejecting import ToReject
from cockpit.model.place import Place
from cockpit.model.records import Rejected


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
