"""Looking at a path that others made, without falling for a pipe, a device or a bad name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_regular(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open ``path`` for reading as (descriptor, status); refuse all but regular files.

    A pipe would block and a device has no end. Raises ``OSError`` with ``strerror`` set.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(0, "not a regular file", path) from None
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file", path)
        yield fd, status
    finally:
        os.close(fd)


def is_folder(path: str | Path) -> bool:
    """Tell whether ``path`` is a folder; not being able to tell is a no."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def is_there(path: str | Path) -> bool:
    """Tell whether ``path`` exists; not being able to tell is a no."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def check_regular(path: Path) -> None:
    """Raise ``OSError`` (``strerror`` says why) if something lies at ``path`` that is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise OSError(errno.EINVAL, f"is {what}; expected a file", str(path))
