"""Deletes one checkpoint, and nothing else (SPEC A-6). Blocking; runs off the event loop.

It must be the very thing that was listed, inside a configured root, and no link. It is renamed
first and loses its marker before its data, so that a half deleted one is never taken for complete.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cockpit.model.base import Frozen
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
