"""Copies of somebody else's SQLite file, here or on an ssh host, read without a trace.

To open a database in WAL mode SQLite makes ``-wal`` and ``-shm`` files beside it, also for a
reader, and trackio opens and closes it with every write. So a copy is read, of the file and its
log, in a folder of our own. SQLite's checksums then say up to where the log counts. A copy is whole
if neither file has changed meanwhile; one that is not is never read. The copy loses its name once
it is open: nothing is left of it, whatever ends this process.

A database of this machine beyond ``MOST`` bytes is not copied: it is read where it lies, as it was
when its log was last folded in. One on a host is fetched with its log in one trip that measures
both twice. Everything blocks and raises ``OSError`` and ``sqlite3.Error``.
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
from cockpit.runtime.mounts import open_regular
from cockpit.sources.logs.pieces import Answer, Ask, Told
from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.logs.remote import Host

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


class LocalFile(Original):
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


MOST_FETCHED: Final = 32 << 20
"""Bytes of a database and its log that are fetched."""
FETCH_TRIES: Final = 2
FETCH_SECONDS: Final = 8.0
"""Seconds for one trip that brings all of it."""
WHOLE_SECONDS: Final = 2.0
"""Seconds for which a file must have been left alone where its times are told in whole ones."""
_SLACK: Final = 1 << 20
_WHOLE: Final = Wish((Span(0),))


class RemoteFile(Original):
    """A database on a host."""

    def __init__(self, place: Place, host: Host) -> None:
        super().__init__(place)
        self._host = host

    def state(self) -> State:
        """Return what the host says of it and its log."""
        return _fetched_state(self._host.ask(self._asks()))

    def opened(self, state: State) -> tuple[State, sqlite3.Connection]:
        """Fetch and open it; one that SQLite finds torn is not."""
        if state.size > MOST_FETCHED:
            most = MOST_FETCHED >> 20
            text = f"{state.size >> 20} MB: no more than {most} MB of a database are fetched"
            raise OSError(errno.EFBIG, text)
        for _ in range(FETCH_TRIES):
            # The files with their bytes, and measured once more behind those.
            wanted = [*self._asks(_WHOLE), *self._asks()]
            told = self._host.ask(wanted, FETCH_SECONDS, MOST_FETCHED + _SLACK)
            before, after = told[: len(told) // 2], told[len(told) // 2 :]
            if _unchanged(before, after):
                return _fetched_state(before), _open_fetched(before)
        raise BusyError

    def _asks(self, wish: Wish = Wish()) -> list[Ask]:  # noqa: B008 - it is a constant
        path = self.place.path
        return [Ask(path, wish), Ask(path + WAL, wish), Ask(path + JOURNAL)]


def _fetched_state(told: Sequence[Told]) -> State:
    """Return the state that a file and its log are in; raises ``OSError``."""
    file, log = told[0], told[1]
    if isinstance(file, OSError):
        raise file
    if isinstance(log, OSError) and not isinstance(log, FileNotFoundError):
        raise log
    both = [each for each in (file, log) if isinstance(each, Answer)]
    return State(
        file=(*file.identity, file.version),
        log=(*log.identity, log.version) if isinstance(log, Answer) else None,
        size=sum(each.size for each in both),
        mtime=max(each.mtime for each in both),
    )


def _unchanged(before: Sequence[Told], after: Sequence[Told]) -> bool:
    """Tell whether what came is one state: all of it, and the same when it had come."""
    if _fetched_state(before) != _fetched_state(after):
        return False
    for told in (*before[2:], *after[2:]):
        if not isinstance(told, FileNotFoundError) and not (
            isinstance(told, Answer) and not told.size
        ):
            return False  # in the middle of a change, or nobody knows
    files = [each for each in before[:2] if isinstance(each, Answer)]
    return all(len(_bytes(each)) == each.size and _settled(each) for each in files)


def _settled(file: Answer) -> bool:
    written = float(file.version.split()[3])
    return not written.is_integer() or file.now - written >= WHOLE_SECONDS


def _bytes(file: Answer) -> bytes:
    return b"".join(data for _, data in file.pieces)


def _open_fetched(told: Sequence[Told]) -> sqlite3.Connection:
    with tempfile.TemporaryDirectory(prefix="cockpit-") as folder:
        copy = Path(folder) / "copy.db"
        for file, end in zip(told, ("", WAL), strict=False):
            if isinstance(file, Answer):
                Path(f"{copy}{end}").write_bytes(_bytes(file))
        connection = connected(str(copy))
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        connection.close()
        raise BusyError
    return connection
