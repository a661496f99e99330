"""One demo at a time in a folder: a file that is locked while one is at work there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self


class BusyError(Exception):
    """Another demo is at work in the folder; the message is one line that names it."""


class Lock:
    """Held from entering to leaving, and by the kernel for as long as the process lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def __enter__(self) -> Self:
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise BusyError(
                f"a demo is already at work in {self._path.parent} (pid {holder}); "
                "leave that one first, or name another --dir"
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode("ascii"))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
