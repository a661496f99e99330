"""The exit file of a job, which a disk that has become full cannot keep from being written.

Standard library only: the supervisor of a job loads this.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from cockpit.launch.kernel import settle_folder

RETRIES, RETRY_AFTER = 20, 0.5
"""How often, and after how many seconds, a status that cannot be written is tried again."""
ROOM = 16


class Status:
    """The exit file, for which room is taken while there is some: a full disk cannot stop it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._handle = os.open(self._fresh, flags, 0o644)
        try:
            os.pwrite(self._handle, b" " * (ROOM - 1) + b"\n", 0)
            os.fsync(self._handle)
        except OSError:
            self.drop()
            raise

    def drop(self) -> None:
        """Give the room back; nothing is written."""
        os.close(self._handle)
        with suppress(OSError):
            self._fresh.unlink()

    def write(self, status: int) -> None:
        """Put the status where it is looked for; tries for a while."""
        for _ in range(RETRIES):
            try:
                length = os.pwrite(self._handle, f"{status}\n".encode(), 0)
                os.ftruncate(self._handle, length)
                os.fsync(self._handle)
                self._fresh.replace(self._path)
                break
            except OSError:
                time.sleep(RETRY_AFTER)
        settle_folder(self._path.parent)
