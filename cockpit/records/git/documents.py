"""Reads and replaces people's files in one step, and locks them between cockpits."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from cockpit.hosts.own_folder import follow, make_folder, settle_folder
from cockpit.model.clock import Clock
from cockpit.runtime.moment import Awake
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.runtime.process import stopped_holder, stopped_words

BIGGEST: Final = 64 << 20
PREFIX: Final = "cockpit-tmp-"
_FORGOTTEN: Final = 3600.0


def real_path(path: Path) -> Path:
    """Return where ``path`` really lies, also when the file itself is not there yet."""
    return Path(os.path.realpath(path.expanduser()))


def read(path: Path) -> bytes | None:
    """Return the bytes of a regular file, ``None`` when there is none."""
    try:
        with open_regular(str(path)) as (handle, found):
            if found.st_size > BIGGEST:
                raise OSError(0, f"is larger than {BIGGEST >> 20} MiB")
            with open(handle, "rb", closefd=False) as file:
                return file.read()
    except FileNotFoundError:
        return None


_POINTER: Final = b"version https://git-lfs.github.com/spec/"


def not_text(data: bytes) -> str | None:
    """Return why lines cannot be added to a file, as words that follow its name."""
    if data.startswith(_POINTER):
        return "is a Git LFS pointer, not the text itself: git lfs pull"
    if b"\0" in data:
        return "is not UTF-8 text (UTF-16, encrypted or damaged): save it as UTF-8, or unlock it"
    return None


def replace(path: Path, former: bytes | None, data: bytes, spare: Path | None = None) -> bool:
    """Replace ``path`` if it still holds ``former``; return False if it has changed.

    The mode and the group are kept. The new bytes are put down in ``spare`` first if that is on
    the same file system, so that a crash leaves no stray file beside the person's own.
    """
    make_folder(path.parent)
    found = None
    with suppress(FileNotFoundError):
        found = path.stat()
    if found is not None and not (found.st_mode & 0o222 and os.access(path, os.W_OK)):
        raise PermissionError(errno.EACCES, "is read-only", str(path))
    try:
        return _swap(path, former, _written(_scratch_folder(path, spare), data, found, path.parent))
    except OSError as error:
        if spare is None or error.errno != errno.EXDEV:  # one file system, mounted twice
            raise
        return _swap(path, former, _written(path.parent, data, found, path.parent))


def sweep(spare: Path) -> None:
    """Remove what killed cockpits left in ``spare``, unless it is young enough to be in use."""
    for left in spare.glob(f"{PREFIX}*"):
        # how old it is tells the clock of the file system that it lies on
        with suppress(OSError), tempfile.TemporaryFile(dir=spare) as probe:
            if os.fstat(probe.fileno()).st_mtime - left.stat().st_mtime > _FORGOTTEN:
                left.unlink(missing_ok=True)


def _swap(path: Path, former: bytes | None, written: Path) -> bool:
    try:
        if read(path) != former:
            return False
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    settle_folder(path.parent)
    return True


def _scratch_folder(path: Path, spare: Path | None) -> Path:
    same = spare is not None and spare.stat().st_dev == path.parent.stat().st_dev
    return spare if same and spare is not None and os.access(spare, os.W_OK) else path.parent


def _written(folder: Path, data: bytes, former: os.stat_result | None, beside: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=PREFIX, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            _like(file.fileno(), former, beside)
            os.fsync(file.fileno())
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _like(handle: int, former: os.stat_result | None, beside: Path) -> None:
    """Give a file the former one's group and mode; a new one follows the folder it is for."""
    if former is None:
        follow(handle, beside, 0o644)
        return
    with suppress(OSError):  # another user's file: its group is kept where that is allowed
        os.fchown(handle, -1, former.st_gid)
    os.fchmod(handle, stat.S_IMODE(former.st_mode))


_POLL_EVERY: Final = 0.03
_OPEN: Final = 10.0


class BusyError(Exception):
    """Somebody else has held the lock for too long."""


@asynccontextmanager
async def locked(path: Path, clock: Clock, patience: float) -> AsyncIterator[None]:
    """Hold ``path`` locked (a folder, or a file that is made) against every other holder.

    Holders of one process exclude each other as well. Raises ``BusyError`` after ``patience``
    seconds and ``OSError`` for a path that cannot be opened. A file system that knows no locks
    is worked on without one.
    """
    handle = await offload(_opened, path, deadline=_OPEN)
    try:
        until = Awake(patience, now=clock.monotonic)
        while not _try_flock(handle):
            if until.left() <= 0:
                raise BusyError(await offload(_busy, path, patience, deadline=_OPEN))
            await asyncio.sleep(_POLL_EVERY)
        yield
    finally:
        os.close(handle)


def _busy(path: Path, patience: float) -> str:
    """Return who is in the way: one that is stopped will be there until somebody acts."""
    stopped = stopped_holder([path])
    if stopped is not None:
        return stopped_words(stopped)
    return f"another cockpit has been writing here for over {patience:g} s"


def _opened(path: Path) -> int:
    if path.is_dir():
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags | os.O_RDWR, 0o666)
    except PermissionError:  # made by another user; reading is enough for the lock
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    follow(handle, path.parent)
    return handle


def _try_flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not supported here
        return True
    return True
