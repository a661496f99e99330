"""A store's file where several machines may see it: who may touch it now, and which file it is.

SQLite's write-ahead log keeps its index in one machine's memory. On such a file system the store
has a rollback journal instead, and whoever reads or writes holds a lock of our own
(``shared_lock``), which the folder ``<store>.locks`` beside it carries. Once that folder is there,
every cockpit keeps to it, whatever it thinks of the file system: the server that exports a home
calls it local.

Whoever takes over from one that may still live copies the file first, under a name never used
before: what the former holder writes when it wakes up goes to a file that is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cockpit.runtime.mounts import FileSystem, asked_anew, file_system
from cockpit.runtime.regular import check_regular, open_regular
from cockpit.store.patience import LOST, HeldError

if TYPE_CHECKING:
    from cockpit.store.shared_lock import Found, Hold, SharedLock

SHARED_PATIENCE: Final = LOST + 2.0
"""Seconds to wait for the lock: enough to see that a holder is gone."""
BESIDE: Final = ("-journal", "-wal", "-shm")
LOOK: Final = 0.05


class TakenOverError(Exception):
    """Another machine took the store over while this process held it: nothing was written."""


class StillOpenError(Exception):
    """A store made for one machine may be open somewhere: it is not changed into a shared one."""


def locks_of(path: Path) -> Path:
    """Return the folder that makes a store a shared one."""
    return path.with_name(f"{path.name}.locks")


def has_locks(path: Path) -> bool:
    """Return whether a store is a shared one: asked at each transaction."""
    try:
        return stat.S_ISDIR(os.stat(f"{path}.locks").st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_shared(path: Path, system: FileSystem | None = None) -> bool:
    """Return whether several machines may use this store (where it cannot be told: yes)."""
    if has_locks(path):
        return True
    return (system or file_system(path.parent)).shared is not False


def check_files(path: Path) -> None:
    """Raise ``OSError`` unless a store's files, those that are there, are regular ones."""
    for each in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        check_regular(each)


class Opened(NamedTuple):
    """What lies under the lock now: its file, and whether nobody else has held it since."""

    file: Path
    same: bool


class SharedFile:
    """The file of a shared store; ``foreign`` counts how often others have changed it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.foreign = 0
        self._system = file_system(path.parent)
        self._lock = _lock_of(path)
        self._hold: Hold | None = None
        self._last: tuple[int, str] = (0, "")
        self._counter: bytes | None = None

    def enter(self, wait: float) -> Opened:
        """Take the lock; raises ``HeldError``, ``StillOpenError`` or ``OSError``."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        hold = self._hold = self._lock.acquire(wait)
        try:
            if hold.fenced:
                _fence(self.path, hold)
            elif hold.said.file != self.path.name and not os.path.lexists(self.path):
                # a person has moved away what stands under the store's name
                _publish(self.path, hold, self.path.with_name(f"{self.path.name}.g{hold.number}"))
            file = self.path.with_name(hold.said.file)
            check_files(file)
            file.touch(mode=0o600, exist_ok=True)
            same = self._last == (hold.number - 1, hold.said.file)
            if not same:
                _ask_anew(file)
                self._settle(file)
        except BaseException:
            self.leave()
            raise
        return Opened(file, same)

    def target(self, file: Path) -> str:
        """Return how SQLite opens it: with its own locks too, where the kernel has such."""
        plain = "" if _has_locks(locks_of(self.path)) else "&vfs=unix-none"
        return f"{file.resolve().as_uri()}?mode=rw{plain}"

    def verify(self) -> None:
        """Raise ``TakenOverError`` if the lock is not ours any more."""
        if self._hold is not None and not self._lock.holds(self._hold):
            who = self._lock.who(self._lock.look())
            raise TakenOverError(f"this process was too slow and another took over: {who}")

    def leave(self) -> None:
        """Let go of the lock."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self._counter = _counter(self.path.with_name(hold.said.file))
            self._last = hold.number, hold.said.file
            hold.free()

    def _settle(self, file: Path) -> None:
        """Note whether others have written; make a store of one machine a shared one."""
        counter = _counter(file)
        if counter != self._counter:
            self.foreign += 1
        if _is_wal(file):
            _convert(file, self._system)


class Copied:
    """A private copy of a shared store as it stands, for who may not change anything there."""

    def __init__(self, path: Path, wait: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cockpit-store-")
        self.file = Path(self._folder.name) / "store.sqlite"
        try:
            self._copy(path, time.monotonic() + wait)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()

    def _copy(self, path: Path, until: float) -> None:
        """Copy at a moment in which nobody changes it; raises ``HeldError`` if there is none."""
        lock = _lock_of(path)
        while True:
            before = lock.look()
            late = time.monotonic() >= until
            if lock.is_free(before) or late:
                source = path.with_name(before.said.file if before.said else _present(path))
                whole = _copied(source, self.file)
                if whole and _unchanged(lock.look(), before):
                    return
            if late:
                raise HeldError(lock.who(before))
            time.sleep(LOOK)


def _lock_of(path: Path) -> SharedLock:
    """Return the lock of a store; imports late, as few stores are shared."""
    from cockpit.store.shared_lock import SharedLock

    return SharedLock(locks_of(path), _present(path))


def _unchanged(after: Found, before: Found) -> bool:
    """Return whether nobody has had the lock in between; a sign of life is no change."""
    return (after.number, after.held) == (before.number, before.held)


def followed(path: Path) -> Path:
    """Return where a store really lies: a person may have put a link in its place."""
    path = path.absolute()
    for _ in range(40):
        if not os.path.islink(path) or _present(path) != path.name:  # noqa: PTH114
            break
        path = path.parent / path.readlink()
    folder, name = os.path.split(path)
    return Path(os.path.realpath(folder), name)


def _present(path: Path) -> str:
    """Return the name of the file that people find under the store's name."""
    with suppress(OSError):
        linked = path.readlink()
        if linked.name.startswith(f"{path.name}.g") and linked.parent == Path():
            return linked.name
    return path.name


def _fence(path: Path, hold: Hold) -> None:
    """Go on with a copy; raises ``HeldError`` if the former holder still writes."""
    source = path.with_name(hold.said.file)
    fresh = path.with_name(f"{path.name}.g{hold.number}")
    if not source.exists():
        return
    if not _copied(source, fresh) or not _is_sound(fresh):
        for end in ("", *BESIDE):
            path.with_name(fresh.name + end).unlink(missing_ok=True)
        raise HeldError("the former holder may still be writing: what it left is not complete")
    _publish(path, hold, fresh)


def _publish(path: Path, hold: Hold, fresh: Path) -> None:
    """Make ``fresh`` the file that everybody uses, and take away what was before."""
    hold.guard(fresh.name)
    link = path.with_name(f".{fresh.name}")
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.replace(path)
    for each in (*path.parent.glob(f"{path.name}.g*"), path.with_name(f"{path.name}-journal")):
        if each.name.removesuffix("-journal") != fresh.name:
            each.unlink(missing_ok=True)


def _is_sound(file: Path) -> bool:
    """Undo what a copy's journal tells to undo, and return whether all of it fits together."""
    try:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            return connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False


def _ask_anew(file: Path) -> None:
    """Forget what this machine remembers of a database's files: others have changed them."""
    for end in ("", *BESIDE[:2]):
        with suppress(FileNotFoundError):
            asked_anew(file.with_name(file.name + end))


def _copied(source: Path, target: Path) -> bool:
    """Copy a database with what lies beside it, the journal first; False if it changed meanwhile.

    A journal is whole before the pages that it protects change, so that older pages than it tells
    of cannot be in the copy.
    """
    ends = [*BESIDE[:2], ""]
    for end in ends:
        target.with_name(target.name + end).unlink(missing_ok=True)
    _ask_anew(source)
    before = [_status(source.with_name(source.name + end)) for end in ends]
    for end, found in zip(ends, before, strict=True):
        if found is not None:
            _copy_one(source.with_name(source.name + end), target.with_name(target.name + end))
    _ask_anew(source)
    after = [_status(source.with_name(source.name + end)) for end in ends]
    return before == after


def _status(path: Path) -> tuple[int, int, int] | None:
    try:
        with open_regular(str(path)) as (_, found):
            return found.st_ino, found.st_size, found.st_mtime_ns
    except FileNotFoundError:
        return None


def _copy_one(source: Path, target: Path) -> None:
    with open_regular(str(source)) as (handle, _), target.open("xb") as file:
        target.chmod(0o600)
        shutil.copyfileobj(os.fdopen(os.dup(handle), "rb"), file)
        file.flush()
        os.fsync(file.fileno())


def _counter(file: Path) -> bytes | None:
    """Return SQLite's own count of changes, from the file's head."""
    try:
        with open_regular(str(file)) as (handle, _):
            return os.pread(handle, 4, 24)
    except OSError:
        return None


def _is_wal(file: Path) -> bool:
    with open_regular(str(file)) as (handle, _):
        return os.pread(handle, 2, 18) == b"\2\2"


def _convert(file: Path, system: FileSystem) -> None:
    """Give a store of one machine a rollback journal; raises ``StillOpenError`` if it may be open.

    A cockpit that has it open keeps ``-shm`` beside it. Where the file system's locks hold between
    machines they tell that nobody does, else only a person can.
    """
    index = file.with_name(f"{file.name}-shm")
    if index.exists() and not (system.locks_cross and _has_locks(file.parent)):
        raise StillOpenError(
            f"it was made for one machine, and {index.name} beside it says that a cockpit has "
            "it open or was killed; end every cockpit on every machine, then remove "
            f"{index.name} alone"
        )
    with closing(sqlite3.connect(file, timeout=0.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # its index in our memory alone
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            told = connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            told = "wal"
    if told != "truncate":
        raise StillOpenError(
            "a cockpit that takes the file system for its own machine's has it open; end that one, "
            "then this store is changed for several machines"
        )
    index.unlink(missing_ok=True)


def _has_locks(folder: Path) -> bool:
    """Return whether the kernel gives POSIX locks there at all."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
