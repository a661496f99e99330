"""Taking turns between cockpits: an advisory lock that the kernel gives back when we die."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.platforms.local.launcher.modes import follow
from cockpit.runtime.moment import Awake
from cockpit.runtime.offload import offload
from cockpit.runtime.process import stopped_holder, stopped_words

_LOOK: Final = 0.03
_OPEN: Final = 10.0


class BusyError(Exception):
    """Somebody else has held the lock for too long."""


@asynccontextmanager
async def held(path: Path, clock: Clock, patience: float) -> AsyncIterator[None]:
    """Hold ``path`` locked (a folder, or a file that is made) against every other holder.

    Holders of one process exclude each other as well. Raises ``BusyError`` after ``patience``
    seconds and ``OSError`` for a path that cannot be opened. A file system that knows no locks
    is worked on without one.
    """
    handle = await offload(_opened, path, deadline=_OPEN)
    try:
        until = Awake(patience, now=clock.monotonic)
        while not _taken(handle):
            if until.left() <= 0:
                raise BusyError(await offload(_busy, path, patience, deadline=_OPEN))
            await asyncio.sleep(_LOOK)
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


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not supported here
        return True
    return True
