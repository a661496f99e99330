"""Opens regular files only: a path that others made may be a pipe, a device or a bad name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TEXT_SIZE: Final = 4 << 20
"""Bytes that are read at each end of a text."""


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


def read_text(path: Path) -> str:
    """Return a logbook's text; of a huge one its two ends (newest may be first or last).

    Blocking; raises ``OSError``.
    """
    with open_regular(str(path)) as (fd, found), open(fd, "rb", closefd=False) as file:
        head = file.read(TEXT_SIZE)
        file.seek(max(TEXT_SIZE, found.st_size - TEXT_SIZE))
        return (head + file.read(TEXT_SIZE)).decode("utf-8", "replace")


def check_regular(path: Path) -> None:
    """Raise ``OSError`` (``strerror`` says why) if something lies at ``path`` that is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise OSError(errno.EINVAL, f"is {what}; expected a file", str(path))
