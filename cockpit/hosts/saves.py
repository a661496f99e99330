"""Checkpoints on the machine that holds them: told apart, moved aside, deleted (SPEC A-4, A-6).

What is left alone raises ``OSError``; one of ``ECANCELED`` says why in words of ours.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS, PROC, mounts
from cockpit.hosts.folders import TRY, place_of, text_of
from cockpit.hosts.own_folder import make_folder, put_whole

LEFT = re.compile(r".+\.deleting-[0-9a-f]{6,}")
"""A folder whose deletion was begun and not finished."""
MOST_MARKS = 8 << 20
LATER = 600.0
"""Seconds after its marker within which the files of one save may still be written."""
DEPTH = 3
"""Folders inside a save that are looked at, one in another: few layouts have more."""


def _left_alone(path: Path | str, why: str) -> OSError:
    return OSError(errno.ECANCELED, why, str(path))


def save_identity(path: str, markers: list[str]) -> dict[str, Any]:
    """Return what tells a checkpoint from another one in its place: its inode, times and markers.

    A link, or anything else that is neither a folder nor a file, is left alone.
    """
    place = place_of(path)
    try:
        found = place.lstat()
    except FileNotFoundError as error:
        raise _left_alone(place, "is not there") from error
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _left_alone(place, "is a link or not a folder: left alone")
    seen: list[list[Any]] = []
    for name in _inner(markers):
        with contextlib.suppress(OSError):
            inner = (place / name).lstat()
            seen.append([name, inner.st_ino, inner.st_mtime_ns, inner.st_size])
    if stat.S_ISDIR(found.st_mode):
        # What is mounted in the folder would be emptied too.
        real = os.path.realpath(place).rstrip("/")
        for point in mount_points():
            if point == real or point.startswith(real + "/"):
                raise _left_alone(place, f"has {point} mounted in it: left alone")
        _nothing_later(place, [name for name, *_ in seen])
    return {
        "device": found.st_dev,
        "inode": found.st_ino,
        "changed": found.st_mtime_ns,
        "markers": seen,
    }


def mount_points() -> list[str]:
    """Return where something is mounted; nothing where the kernel lists that nowhere."""
    try:
        text = Path(f"{PROC}/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return []
    return [point for point, _ in mounts(text)]


def _nothing_later(place: Path, markers: list[str]) -> None:
    """Refuse a save in which something was put long after it was saved: it is not of the save.

    A folder is looked through only where its own times say that something came to it. What was
    moved or copied there keeps its own time, and has the change's.
    """
    whole = [(place / name).lstat() for name in markers]
    if not whole:
        return
    written = max(each.st_mtime for each in whole) + LATER
    changed = max(each.st_ctime for each in whole) + LATER

    def later(found: os.stat_result) -> bool:
        return found.st_mtime > written or found.st_ctime > changed

    folders = [(place, 1)]
    while folders:
        folder, depth = folders.pop()
        came = later(folder.lstat())
        with os.scandir(folder) as entries:
            for entry in entries:
                if came and not entry.is_symlink() and later(entry.stat(follow_symlinks=False)):
                    where = os.path.relpath(entry.path, str(place))
                    why = f"holds {where}, which was written after it was saved: left alone"
                    raise _left_alone(place, why)
                if depth < DEPTH and entry.is_dir(follow_symlinks=False):
                    folders.append((Path(entry.path), depth + 1))


def _inner(markers: list[str]) -> list[str]:
    """Return the markers to look for inside a folder; a name that leads out of it is none."""
    return sorted(
        n for n in set(markers) if n and not n.startswith("/") and ".." not in Path(n).parts
    )


def delete_save(
    path: str, roots: list[str], was: dict[str, Any], plan: str, markers: list[str]
) -> None:
    """Delete a checkpoint below one of the roots if it still is what it was.

    It is renamed first (``plan`` names the clean-up), then its markers go, then its data: what was
    begun and cannot be finished stays under its new name, and never looks whole.
    """
    place = place_of(path)
    _inside(place, roots)
    if save_identity(path, markers) != was:
        raise _left_alone(place, "has changed since it was listed")
    aside = (
        place if LEFT.fullmatch(place.name) else place.with_name(f"{place.name}.deleting-{plan}")
    )
    if aside != place:
        if os.path.lexists(aside):
            raise _left_alone(aside, "exists already")
        place.rename(aside)
    if not stat.S_ISDIR(aside.lstat().st_mode):
        aside.unlink()
        return
    for name in _inner(markers):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (aside / name).unlink()
    shutil.rmtree(aside)


def _inside(place: Path, roots: list[str]) -> None:
    """Refuse what is not a checkpoint's place below a configured root, links followed."""
    real = os.path.realpath(place)
    for root in roots:
        top = os.path.realpath(place_of(root))
        if real != top and real.startswith(top.rstrip("/") + "/"):
            return
    raise _left_alone(place, "is not inside a checkpoint root of this run")


def half_deleted(roots: list[str]) -> list[list[Any]]:
    """Return what lies half deleted in some roots, each with its bytes."""
    found: list[list[Any]] = []
    for root in dict.fromkeys(roots):
        with contextlib.suppress(OSError):
            names = sorted(entry.name for entry in place_of(root).iterdir())
            left = [f"{root.rstrip('/')}/{name}" for name in names if LEFT.fullmatch(name)]
            found += [[path, _size_of(path)] for path in left]
    return found


def _size_of(path: str) -> int:
    """Return the bytes below a path; what cannot be read counts as nothing."""
    total = 0
    for folder, _, names in os.walk(place_of(path)):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def nothing_left(path: str) -> bool:
    """Tell whether nothing is at a path, and nothing half deleted that was there.

    Its folder must be there, and open to this user.
    """
    place = place_of(path)
    begun = f"{place.name}.deleting-"
    return not any(
        name == place.name or (name.startswith(begun) and LEFT.fullmatch(name))
        for name in (entry.name for entry in place.parent.iterdir())
    )


def why_not_movable(root: str, paths: list[str]) -> list[str] | None:
    """Return why one of the paths cannot be renamed inside its root: ``[path, why]``."""
    top = place_of(root)
    for path in paths:
        place = place_of(path)
        if place.parent != top:
            return [path, "does not lie directly in its root"]
        if not os.path.lexists(place):
            return [path, "is not there"]
        if place.lstat().st_dev != top.stat().st_dev:
            return [path, "is not on the file system of its root"]
        if os.path.ismount(place):
            return [path, "is a mount point"]
    try:
        Path(tempfile.mkdtemp(prefix=TRY, dir=top)).rmdir()
    except OSError as error:
        return [root, f"may not be written by this user: {(error.strerror or str(error)).lower()}"]
    return None


def move_save(path: str, target: str) -> None:
    """Rename inside one file system: nothing is overwritten, and a rename back undoes it."""
    place, aim = place_of(path), place_of(target)
    if not os.path.lexists(place):
        if os.path.lexists(aim):
            return  # it had moved, and the answer was lost
        raise _left_alone(place, "is not there")
    if os.path.lexists(aim):
        raise _left_alone(aim, "is there already")
    if aim.parent.is_symlink():
        raise _left_alone(aim.parent, "is a link or not a folder: left alone")
    make_folder(aim.parent, parents=False)
    place.rename(aim)


def names_there(paths: list[str]) -> list[bool]:
    """Tell of each path whether anything has that name."""
    return [os.path.lexists(place_of(path)) for path in paths]


def free_place(folders: list[str], name: str) -> str | None:
    """Return where a name is free: in the first of the folders that is no link."""
    for folder in folders:
        place = place_of(folder)
        if not place.is_symlink() and not os.path.lexists(place / name):
            return f"{folder}/{name}"
    return None


def read_whole(path: str, most: int = MOST_MARKS) -> str | None:
    """Return the text of a regular file up to ``most`` bytes, ``None`` where there is none."""
    return text_of(place_of(path), most)


def put_if(folder: str, name: str, was: str | None, text: str) -> bool:
    """Put a file that everybody may read in its place if it still says what it did.

    Makes its folder, in a folder that is there.
    """
    place = place_of(folder)
    if place.is_symlink():
        raise OSError(errno.ELOOP, "is a link, so nothing is written there", str(place))
    make_folder(place, parents=False)
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # where there are no locks, comparing has to do
            fcntl.flock(handle, fcntl.LOCK_EX)
        if read_whole(f"{folder}/{name}") != was:
            return False
        put_whole(place / name, text)
    finally:
        os.close(handle)
    return True


for _each in (
    save_identity, delete_save, half_deleted, nothing_left, why_not_movable, move_save,
    names_there, free_place, read_whole, put_if,
):  # fmt: skip
    CALLS[_each.__name__] = _each
