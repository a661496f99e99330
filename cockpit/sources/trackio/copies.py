"""A SQLite file of somebody else's, read without a trace: no lock, no file beside it.

To open a database in WAL mode SQLite makes ``-wal`` and ``-shm`` files beside it, also for a
reader, and trackio opens and closes it with every write. So a copy is read, of the file and its
log, in a folder of our own; SQLite itself then sees by its checksums up to where the log counts.
A copy is whole if neither file has changed meanwhile; one that is not is never read. It has no name
any more once it is open: nothing is left of it, whatever ends this process.

A database of this machine beyond ``MOST`` bytes is not copied: it is read where it lies, as it was
when its log was last folded in. Everything blocks and raises ``OSError`` and ``sqlite3.Error``.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from cockpit.model.place import FILE, Place
from cockpit.runtime.regular import open_regular

MOST: Final = 256 << 20
TRIES: Final = 6
PAUSE: Final = 0.05
"""Seconds before the second try to copy a file that is being written to; then more."""
ANSWERED_WITHIN: Final = 4.0
"""Seconds for one query: a view of a stranger's file could go on for ever, and keep its thread."""
_LOOK_EVERY: Final = 10_000
"""Instructions of SQLite's between two looks at the clock."""
_LARGEST: Final = 16 << 20
"""Bytes of one value, as SQLite makes it or reads it."""
SHARE: Final = 20
"""A copy that took a second is not made again for so many: a big file costs no more often."""
WAL: Final = "-wal"
JOURNAL: Final = "-journal"
"""What is there beside a database without a log while it is being changed."""


class BusyError(OSError):
    """It was written to all the time: there is no whole copy."""

    def __init__(self) -> None:
        super().__init__(
            errno.EBUSY, "it is written to constantly: no consistent copy could be made"
        )


@dataclass(frozen=True)
class State:
    """What tells one state of a database from another: its file and its log.

    ``mtime`` is when either was last written to (epoch s), ``size`` the bytes of both.
    """

    file: tuple[Hashable, ...]
    log: tuple[Hashable, ...] | None
    size: int
    mtime: float = field(compare=False)


class Original(ABC):
    """A database where it lies."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def state(self) -> State:
        """Return the state that it is in."""

    @abstractmethod
    def opened(self, state: State) -> tuple[State, sqlite3.Connection]:
        """Open a copy; return what state it is of, which was ``state`` a moment ago."""


class Database:
    """One file, shared by all runs that lie in it; safe from any thread."""

    def __init__(self, original: Original) -> None:
        self.place = original.place
        self._original = original
        self._lock = Lock()
        self._held: tuple[State, sqlite3.Connection] | None = None
        self._again_at = float("-inf")

    def look(self) -> State:
        """Copy the file if it has changed, and return the state that is read from now on."""
        with self._lock:
            state = self._original.state()
            if self._held is not None and self._held[0] == state:
                return state
            began = time.monotonic()
            if self._held is not None and began < self._again_at:
                return self._held[0]
            try:
                made = self._original.opened(state)
            except BusyError:
                if self._held is None:
                    raise
                return self._held[0]
            finally:
                self._again_at = time.monotonic() + SHARE * (time.monotonic() - began)
            if self._held is not None:
                self._held[1].close()
            self._held = made
            return made[0]

    def rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return what a query finds in the state that was looked at last."""
        with self._lock:
            assert self._held is not None
            with _timed(self._held[1]) as connection:
                return connection.execute(query, values).fetchall()


class FileHere(Original):
    """A database of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__(Place(FILE, "", path))

    def state(self) -> State:
        """Return what the kernel says of it and its log."""
        return state_of(self.place.path)

    def opened(self, state: State) -> tuple[State, sqlite3.Connection]:
        """Open a copy, or itself if it is too big."""
        path = self.place.path
        if state.size > MOST:
            address = f"file:{quote(path)}?mode=ro&immutable=1"
            found = sqlite3.connect(address, uri=True, check_same_thread=False)
            found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
            return state, found
        with tempfile.TemporaryDirectory(prefix="cockpit-") as folder:
            copy = str(Path(folder) / "copy.db")
            return _copied(path, copy), connected(copy)


@contextmanager
def _timed(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Interrupt what goes on for longer than ``ANSWERED_WITHIN``; raises ``sqlite3.Error``."""
    until = time.monotonic() + ANSWERED_WITHIN
    connection.set_progress_handler(lambda: time.monotonic() > until, _LOOK_EVERY)
    try:
        yield connection
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise sqlite3.OperationalError(
                f"a query took longer than {ANSWERED_WITHIN:g} s and was ended"
            ) from None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def state_of(path: str) -> State:
    """Return the state of a database; raises ``OSError``."""
    with open_regular(path) as (_, status):
        pass
    log = None
    with suppress(FileNotFoundError):
        log = Path(path + WAL).stat()
    both = [status] if log is None else [status, log]
    return State(
        file=_key(status),
        log=None if log is None else _key(log),
        size=sum(each.st_size for each in both),
        mtime=max(each.st_mtime for each in both),
    )


def connected(copy: str) -> sqlite3.Connection:
    """Open a copy and fold its log in; its name may go then."""
    connection = sqlite3.connect(copy, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    try:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute("PRAGMA query_only = 1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _copied(path: str, copy: str) -> State:
    for number in range(TRIES):
        time.sleep(PAUSE * number)
        state = state_of(path)
        for former in (copy, copy + WAL):
            Path(former).unlink(missing_ok=True)
        shutil.copyfile(path, copy)
        if state.log is not None:
            with suppress(FileNotFoundError):  # it was folded in since
                shutil.copyfile(path + WAL, copy + WAL)
        if state_of(path) == state and not _in_change(path):
            return state
    raise BusyError


def _in_change(path: str) -> bool:
    with suppress(OSError):
        return Path(path + JOURNAL).stat().st_size > 0
    return False


def _key(status: os.stat_result) -> tuple[Hashable, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
