"""What the cockpit tries, moves and writes in folders of a machine, sent along with the agent.

What is refused raises ``OSError`` and has changed nothing, unless the function says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS
from cockpit.hosts.own_folder import refuse_links

FSTAB = "/etc/fstab"
TRIED = 65_536
"""Bytes that are written to see that a file system takes any: a quota is noticed only so."""
TRY = ".cockpit-try-"


def place_of(path: str) -> Path:
    """Return a path of this machine; one that starts at the home is expanded."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - ``~`` of no user stays as it is


def _refused(error: OSError, path: Path) -> list[str]:
    """Return why something was refused and where, without the name of what was only tried."""
    where = Path(error.filename if isinstance(error.filename, str) else str(path))
    where = where.parent if where.name.startswith(TRY) else where
    return [(error.strerror or str(error) or "it cannot be used").lower(), str(where)]


def try_folder(path: str, file: str = "", append: bool = False) -> dict[str, Any]:
    """Try to write into a folder or, before it exists, to make it; leave it as it was.

    ``file`` in it, if it is there, must be a file that can be appended to (``append``) or replaced.
    Return ``other`` for what is no folder, ``refused`` as ``[why, where]``, and of a folder that is
    not there ``above``, the nearest that is, and ``unmounted``, the mount point it would lie on.
    """
    folder = place_of(path)
    try:
        refuse_links(folder)
        if folder.is_dir():
            _write(folder)
        elif os.path.lexists(folder):
            return {"other": True}
        else:
            above = nearest(folder)
            Path(tempfile.mkdtemp(prefix=TRY, dir=above)).rmdir()
            return {"above": str(above), "unmounted": unmounted(folder)}
        if file:
            _take(place_of(file), append)
    except OSError as error:
        return {"refused": _refused(error, folder)}
    return {}


def _write(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=TRY, dir=folder)
    try:
        os.write(handle, bytes(TRIED))
        os.fsync(handle)
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            Path(name).unlink()


def nearest(path: Path) -> Path:
    """Return the nearest that is there of the folders above a path."""
    return next((each for each in path.parents if os.path.lexists(each)), Path("/"))


def unmounted(path: Path) -> str | None:
    """Return the mount point above a path whose disk ``fstab`` names and that is not mounted."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path(FSTAB).read_text(encoding="utf-8", errors="replace").splitlines()
    for words in (line.split() for line in lines):
        if len(words) > 1 and not words[0].startswith("#") and words[1].startswith("/"):
            point = Path(words[1].replace("\\040", " "))
            if point in (path, *path.parents) and not os.path.ismount(point):
                return str(point)
    return None


def _take(path: Path, append: bool) -> None:
    """See that a file that is there can be appended to, or replaced."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory", str(path))
    if append:
        if not path.is_fifo():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK))
        return
    above = path.parent.stat()
    owners = (0, path.lstat().st_uid, above.st_uid)
    if above.st_mode & stat.S_ISVTX and os.geteuid() not in owners:
        raise PermissionError(1, "only its owner may replace it", str(path))


def room(path: str) -> dict[str, Any]:
    """Return what the disk of a path, or of its nearest parent folder, has left for this user.

    ``free`` bytes and ``files``; each is ``None`` where the disk does not count them. ``there`` is
    the folder.
    """
    place = place_of(path)
    there = next((each for each in (place, *place.parents) if each.is_dir()), Path("/"))
    disk, root = os.statvfs(there), os.geteuid() == 0
    free = disk.f_frsize * (disk.f_bfree if root else disk.f_bavail)
    return {
        "there": str(there),
        "free": free if disk.f_blocks else None,
        "files": (disk.f_ffree if root else disk.f_favail) if disk.f_files else None,
    }


def why_not_begun(workdir: str, program: str, script: str = "") -> list[Any] | None:
    """Return why a command cannot begin: what is missing, and whether that is a file.

    What is missing is ``workdir``, ``enter`` (the workdir is closed), ``program`` or ``script``.
    A ``program`` with a variable in it is not looked for.
    """
    folder = place_of(workdir)
    if not folder.is_dir():
        return ["workdir", False]
    if not os.access(folder, os.X_OK):
        return ["enter", False]
    known = "$" not in program
    found = str(place_of(program)) if program.startswith("~") else program
    found = str(folder / found) if "/" in found else found
    if known and shutil.which(found) is None:
        return ["program", "/" in found and Path(found).is_file()]
    if known and script and not (folder / script).exists():
        return ["script", False]
    return None


def missing_for_launcher() -> str | None:
    """Return what a launch needs and this machine has not."""
    return None if os.access("/proc/self/stat", os.R_OK) else "/proc"


def why_unreadable(path: str, most: int) -> list[str] | None:
    """Return why a file, or one of the first files of a folder, cannot be read: ``[why, where]``.

    A link that leads nowhere is no file.
    """
    origin = place_of(path)
    try:
        for file in [origin] if origin.is_file() else _some_files(origin, most):
            with file.open("rb") as opened:
                opened.read(1)
    except OSError as error:
        return _refused(error, origin)
    return None


def _some_files(folder: Path, most: int) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for where, _, names in os.walk(folder, onerror=fail):
        for path in (Path(where, name) for name in names):
            if path.is_file():
                yield path
                most -= 1
            if not most:
                return


for _each in (try_folder, room, why_not_begun, missing_for_launcher, why_unreadable):
    CALLS[_each.__name__] = _each
