"""The cockpit's own folder beside a run, and its files there: never behind a link, rights follow.

Files made beside a run follow their folder, so that the next owner can go on. In a folder that a
group may write to, a file of ours is the group's and the group may write it, whatever the umask
says; in a private folder it is private.

Standard library only: it is sent along with the agent, and the supervisor of a job loads it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

OWN = ".cockpit"
"""The cockpit's own folder under an output root."""


def refuse_links(path: Path) -> None:
    """Raise ``OSError`` where the cockpit's own folder, or what lies in it, is a link.

    Whoever can make one would lead locks, claims and notes into a folder of their choice.
    """
    parts = path.parts
    if OWN not in parts:
        return
    begins = len(parts) - parts[::-1].index(OWN)
    for end in range(begins, len(parts) + 1):
        place = Path(*parts[:end])
        if place.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and notes are kept in a real one", str(place))


def follow(handle: int, folder: Path, base: int | None = None) -> None:
    """Give an open file of ours the folder's group and rights; ``base`` replaces its own mode.

    A file of another user's is left alone, and so is one where that is not allowed.
    """
    with suppress(OSError):
        found, above = os.fstat(handle), folder.stat()
        if found.st_uid != os.geteuid():
            return
        wanted = _followed(stat.S_IMODE(found.st_mode) if base is None else base, above, 0)
        if _shared(above) and found.st_gid != above.st_gid:
            with suppress(OSError):
                os.fchown(handle, -1, above.st_gid)
        if wanted != stat.S_IMODE(os.fstat(handle).st_mode):
            os.fchmod(handle, wanted)


def make_folder(path: Path, *, parents: bool = True) -> None:
    """Make a folder, and those above it unless told not to, each as open as the one it lies in.

    Raises ``OSError``; one that is there already stays as it is. The cockpit's own is no link.
    """
    refuse_links(path)
    if path.is_dir():
        return
    if parents and not path.parent.is_dir():
        make_folder(path.parent)
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError as error:  # not to be taken for a note that is there already
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder", str(path)) from error
    with suppress(OSError):
        found, above = path.stat(), path.parent.stat()
        if found.st_uid != os.geteuid():
            return
        if _shared(above) and found.st_gid != above.st_gid:
            with suppress(OSError):
                os.chown(path, -1, above.st_gid)
        mode = _followed(stat.S_IMODE(found.st_mode), above, 0o111) | above.st_mode & stat.S_ISGID
        if mode != stat.S_IMODE(path.stat().st_mode):
            path.chmod(mode)


def _followed(mode: int, above: os.stat_result, search: int) -> int:
    """Return ``mode`` with what the folder above gives to others, and without what it refuses."""
    if _shared(above):
        mode |= 0o060 | search & 0o010
    if above.st_mode & 0o002 and not above.st_mode & stat.S_ISVTX:
        mode |= 0o006 | search & 0o001
    if not above.st_mode & 0o050:
        mode &= ~0o070
    if not above.st_mode & 0o005:
        mode &= ~0o007
    return mode


def _shared(above: os.stat_result) -> bool:
    """Tell whether a folder is a group's to write in; everybody's scratch place is not."""
    scratch = above.st_mode & stat.S_ISVTX and above.st_mode & 0o002
    return bool(above.st_mode & 0o020) and not scratch


def read_whole(path: Path, most: int = -1) -> bytes:
    """Read a file of ours; raises ``OSError``. No named pipe in its place is waited for."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most)


def write_whole(path: Path, text: str, base: int | None = None, mode: str = "w") -> None:
    """Write a file of our own and have the disk take it; raises ``OSError``.

    ``base`` are its rights where the folder adds none and takes none away (``follow``).
    """
    with path.open(mode, encoding="utf-8") as file:
        follow(file.fileno(), path.parent, base)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def put_new(path: Path, text: str, base: int | None = None) -> bool:
    """Put a file there, whole from its first moment on, if there is none; False if there is one.

    A link to a finished file, which also holds on network file systems; where there are no links,
    the file is made in its place. Raises ``OSError``.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write_whole(fresh, text, base)
        try:
            os.link(fresh, path)
        except OSError:
            if fresh.stat().st_nlink != 2:  # else only the answer was lost
                write_whole(path, text, base, "x")
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            fresh.unlink()
    settle_folder(path.parent)
    return True


def settle_folder(folder: Path) -> None:
    """Have the disk take a folder's names; a file system that cannot is left at that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_atomically(path: Path, text: str, base: int | None = None) -> None:
    """Write ``text`` so that a reader sees the former file or the whole new one, and it lasts.

    ``base`` is as in ``write_whole``. Raises ``OSError`` (a full disk, say); then the former file
    is still there.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.new")
    try:
        write_whole(fresh, text, base)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    settle_folder(path.parent)


def put_whole(target: Path, text: str) -> None:
    """Put a file that everybody may read in its place in one piece; raises ``OSError``."""
    write_atomically(target, text, 0o644)
