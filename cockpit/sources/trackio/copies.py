"""A SQLite file of somebody else's, read without a trace: no lock, no file beside it.

To open a database in WAL mode SQLite makes ``-wal`` and ``-shm`` files beside it, also for a
reader, and trackio opens and closes it with every write. So a copy is read, of the file and its
log, in a folder of our own; SQLite itself then sees by its checksums up to where the log counts.
A copy is whole if neither file has changed meanwhile, and has no name any more once it is open:
nothing is left of it, whatever ends this process.

A database beyond ``MOST`` bytes is not copied: it is read where it lies, as it was when its log
was last folded in. Everything blocks and raises ``OSError`` and ``sqlite3.Error``.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cockpit.runtime.regular import open_regular

MOST: Final = 256 << 20
TRIES: Final = 4
SHARE: Final = 20
"""A copy that took a second is not made again for so many: a big file costs no more often."""
WAL: Final = "-wal"
Key = tuple[int, int, int, int]
"""Device, inode, size, time of the last write (ns)."""


class State(NamedTuple):
    """What tells one state of a database from another: its file and its log."""

    file: Key
    log: Key | None

    @property
    def mtime(self) -> float:
        """When either was last written to (epoch s)."""
        return max(self.file[3], self.log[3] if self.log is not None else 0) / 1e9

    @property
    def size(self) -> int:
        """Bytes of both."""
        return self.file[2] + (self.log[2] if self.log is not None else 0)


class Database:
    """One file, shared by all runs that lie in it; safe from any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock()
        self._held: tuple[State, sqlite3.Connection] | None = None
        self._again_at = float("-inf")

    def look(self) -> State:
        """Copy the file if it has changed, and return the state that is read from now on."""
        with self._lock:
            state = state_of(self.path)
            if self._held is not None and self._held[0] == state:
                return state
            began = time.monotonic()
            if self._held is not None and began < self._again_at:
                return self._held[0]
            made = _opened(self.path, state)
            self._again_at = time.monotonic() + SHARE * (time.monotonic() - began)
            if self._held is not None:
                self._held[1].close()
            self._held = made
            return made[0]

    def rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return what a query finds in the state that was looked at last."""
        with self._lock:
            assert self._held is not None
            return self._held[1].execute(query, values).fetchall()


def state_of(path: str) -> State:
    """Return the state of a database; raises ``OSError``."""
    with open_regular(path) as (_, status):
        found = _key(status)
    log = None
    with suppress(FileNotFoundError):
        log = _key(Path(path + WAL).stat())
    return State(found, log)


def _opened(path: str, state: State) -> tuple[State, sqlite3.Connection]:
    if state.size > MOST:
        address = f"file:{quote(path)}?mode=ro&immutable=1"
        return state, sqlite3.connect(address, uri=True, check_same_thread=False)
    with tempfile.TemporaryDirectory(prefix="cockpit-") as folder:
        copy = str(Path(folder) / "copy.db")
        for _ in range(TRIES):
            state = state_of(path)
            _copy(path, copy, state)
            if state_of(path) == state:
                break
        connection = sqlite3.connect(copy, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()  # folds the log in
            connection.execute("PRAGMA query_only = 1")
        except sqlite3.Error:
            connection.close()
            raise
        return state, connection


def _copy(path: str, copy: str, state: State) -> None:
    for former in (copy, copy + WAL):
        Path(former).unlink(missing_ok=True)
    shutil.copyfile(path, copy)
    if state.log is not None:
        with suppress(FileNotFoundError):  # it was folded in since
            shutil.copyfile(path + WAL, copy + WAL)


def _key(status: os.stat_result) -> Key:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
