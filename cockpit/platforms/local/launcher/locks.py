"""Locks that the kernel holds for as long as anything of a job lives (SPEC A, at most once).

A supervisor takes them before it starts anything and hands the descriptors on to the command:
the kernel lets go when the last process that has one is gone, whoever was killed and however.
Standard library only: the supervisor loads this.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from cockpit.platforms.local.launcher.modes import follow, make_folder, refuse_links

UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What a file system says that has no locks."""
JOB_LOCK = Path(".cockpit", "job.lock")
"""Below an output root: locked while a job writes there."""


class LockError(Exception):
    """A lock could not be taken; the message is one line that says why."""


class HeldError(LockError):
    """A lock is held: something of another job of this lineage lives."""


def take(paths: Sequence[Path]) -> list[int]:
    """Lock every file and return the descriptors; all or none, in one order for everybody.

    Raises ``HeldError`` naming who holds one, ``LockError`` if none can be locked at all.
    """
    taken: list[int] = []
    why = ""
    try:
        for path in sorted(set(paths)):
            try:
                taken.append(_lock(path))
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    text = f"cannot lock {path}: {error.strerror}"
                    raise LockError(text) from error
                why = f"{path}: {error.strerror}"
        if paths and not taken:
            raise LockError(f"no lock can be held here ({why})")
    except LockError:
        release(taken)
        raise
    return taken


def try_open(paths: Iterable[Path]) -> None:
    """See that each lock could be opened, taking none; raises ``OSError``.

    Not locked for a moment either: whoever starts a job just then would find it held.
    """
    for path in paths:
        refuse_links(path)
        if os.path.lexists(path):
            os.close(_open(path))
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OSError(errno.EINVAL, "it is not a file", str(path))


def release(handles: Iterable[int]) -> None:
    """Let go of locks that were taken; others who were handed them hold on."""
    for handle in handles:
        os.close(handle)


def _lock(path: Path) -> int:
    """Return a locked descriptor of ``path``; raises ``HeldError`` or ``OSError``."""
    make_folder(path.parent)
    while True:
        handle = _open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(handle)):
                    return handle
        except BlockingIOError:
            text = held_by(path, handle)
            os.close(handle)
            raise HeldError(text) from None
        except OSError:
            os.close(handle)
            raise
        os.close(handle)  # removed by somebody between opening and locking: take the new one


def _open(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_NONBLOCK
    try:
        handle = os.open(path, os.O_RDWR | flags, 0o644)
    except PermissionError:  # another user's: it can be locked all the same
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    follow(handle, path.parent)
    return handle


def describe(handles: Iterable[int], text: str) -> None:
    """Write into the locks who holds them, for people; the lock does not depend on it."""
    for handle in handles:
        with suppress(OSError):
            os.pwrite(handle, text.encode(), 0)
            os.ftruncate(handle, len(text.encode()))


def held_by(path: Path, handle: int) -> str:
    """Return one line about who holds ``path``, from its text and the process table."""
    with suppress(OSError):
        written = os.pread(handle, 500, 0).decode("utf-8", "replace").split("\n")
        told = dict(line.split("=", 1) for line in written if "=" in line)
        name = told.get("launch_id")
    launch = "" if not name else f" of {name}"
    pids = holders(path)
    who = ", ".join(f"pid {pid} ({_name(pid)})" for pid in pids[:5]) or "a process out of sight"
    return f"{path} is locked: something of a job{launch} still lives: {who}"


def holders(path: Path) -> list[int]:
    """Return the processes, ours apart, that have ``path`` open, as far as we may look."""
    real = os.path.realpath(path)
    pids = (int(name) for name in _names(Path("/proc")) if name.isdigit())
    return [pid for pid in sorted(pids) if pid != os.getpid() and _has_open(pid, real)]


def _has_open(pid: int, real: str) -> bool:
    folder = Path(f"/proc/{pid}/fd")
    for name in _names(folder):
        with suppress(OSError):
            if str((folder / name).readlink()) == real:
                return True
    return False


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    return "".join(char for char in text.strip() if char.isprintable())
