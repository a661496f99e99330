"""What can be done to a checkpoint where it lies, and how rejecting one works (SPEC A-4)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from cockpit.model.base import Frozen
from cockpit.model.place import Place
from cockpit.model.records import Rejected

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
