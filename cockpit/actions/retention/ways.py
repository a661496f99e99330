"""What can be done to a checkpoint where it lies, and how rejecting one works (SPEC A-4)."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cockpit.model.base import Frozen
from cockpit.model.place import Place
from cockpit.model.records import Rejected
from cockpit.platforms.local.launcher.notes import follow, make_folder
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.contents import read_marks

ASIDE: Final = "rejected-"
_TRIES: Final = 100


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


def mark(root: str, rejected: Iterable[Rejected]) -> None:
    """Write what of ``root`` is rejected into the root itself, beside what stands there.

    Raises ``OSError``, and ``ValueError`` for a file there that cannot be understood.
    """
    text = merged(root, read_marks(root), rejected)
    folder = Path(root, FOLDER)
    make_folder(folder, parents=False)
    if folder.is_symlink():
        raise OSError(0, "is a link, so nothing is written there", str(folder))
    put_whole(folder / NAME, text)


def put_whole(target: Path, text: str) -> None:
    """Put a file that everybody may read in its place in one piece; raises ``OSError``."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            follow(file.fileno(), target.parent, 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def day_of(at: float) -> str:
    """Return the day of an instant, as it stands in names (UTC)."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")


def place_aside(each: ToReject, at: float) -> str:
    """Return a free place in ``<root>/rejected-<date>/``, or in a further folder of that day.

    Raises ``OSError``.
    """
    day = day_of(at)
    name = Path(each.path).name
    for count in range(1, _TRIES):
        folder = Path(each.root, f"{ASIDE}{day}{f'-{count}' if count > 1 else ''}")
        if not folder.is_symlink() and not os.path.lexists(folder / name):
            return str(folder / name)
    raise FileExistsError(0, f"{_TRIES} folders {ASIDE}{day} hold a {name}", each.root)


def move(path: str, target: str) -> None:
    """Rename inside one file system: nothing is overwritten, and a rename back undoes it.

    Raises ``OSError``.
    """
    make_folder(Path(target).parent, parents=False)
    if os.path.lexists(target):
        raise FileExistsError(0, "is there already", target)
    Path(path).rename(target)


def why_not_movable(to_reject: Iterable[ToReject]) -> str | None:
    """Return why one of them cannot be moved inside its root, if that is so."""
    for each in to_reject:
        path, root = Path(each.path), Path(each.root)
        try:
            if not os.access(root, os.W_OK | os.X_OK):
                return f"{root} may not be written"
            if path.parent != root or path.lstat().st_dev != root.stat().st_dev:
                return f"{path} is not on the file system of its root"
            if path.is_mount():
                return f"{path} is a mount point"
        except OSError as error:
            return f"{path}: {(error.strerror or 'cannot be read').lower()}"
    return None


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
