"""The one SQLite file of the cockpit: opened, migrated, and shared by several processes.

Every failure (read-only, full, corrupt, newer, locked) is a ``StoreError`` of one line; the
program goes on without history. Calls block: the event loop reaches them through offload.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.runtime.lock_holders import stopped_holder, stopped_words
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.text.safe import safe_line

BUSY_SECONDS = 5.0
NO_HISTORY = "the cockpit goes on without history"
V = TypeVar("V", bound=Frozen)


class StoreError(Exception):
    """The store cannot be used; the text is one line that says which file, why and what to do."""


class EmptyStoreError(StoreError):
    """Nothing is kept yet: another cockpit is making the file at this moment."""


class StoppedHolderError(StoreError):
    """A process that is stopped holds the store for writing: waiting is in vain."""


def run_key(config_path: str, name: str) -> str:
    """Return a run's identity in the store: its run file and its slug."""
    return f"{Path(config_path).resolve()}#{name}"


class Store:
    """An open store. Safe to call from several threads; one connection, one transaction at a time.

    ``read_only`` opens an existing file without changing anything in its folder, not even the
    files that SQLite keeps beside it. Raises ``StoreError``.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = threading.RLock()
        self._file: tuple[int, int] | None = None
        self._held = False
        """Whether a stopped process held it for writing when it was last asked."""
        self._open()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for reading; raises ``StoreError``."""
        with self._lock, self._explained():
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one transaction that other processes wait for.

        Inside another ``writing`` of the same thread it joins that transaction.
        """
        with self._lock, self._explained():
            if self._file is None:
                self._open()
            if self._connection.in_transaction:
                yield self._connection
                return
            if self._held:
                self._not_held()
            if _identity(self.path) != self._file:
                self._connection.close()
                self._open()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._undo()
                raise
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._undo()
                raise

    def version(self) -> int:
        """Return a number that changes whenever another process has written."""
        with self.reading() as connection:
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def forget(self, config_path: str) -> None:
        """Delete everything that is kept for the runs of one run file (the demo's clean-up)."""
        prefix = run_key(config_path, "")
        with self.writing() as connection:
            tables = connection.execute(
                "SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c"
                " ON c.name = 'run' WHERE m.type = 'table'"
            ).fetchall()
            for (table,) in tables:
                connection.execute(
                    f"DELETE FROM {table} WHERE substr(run, 1, ?) = ?", (len(prefix), prefix)
                )

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _open(self) -> None:
        """Open the file that lies there now; the one opened before may have been removed."""
        self._file = None
        with self._explained():
            self._connection = self._connect()
        self._file = _identity(self.path)
        try:
            self._prepare()
        except StoreError:
            self._file = None
            self._connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self.read_only:
            # a file that nobody has open is read as it lies
            live = self.path.with_name(f"{self.path.name}-wal").exists()
            how = "mode=ro" if live else "mode=ro&immutable=1"
            target = f"{self.path.resolve().as_uri()}?{how}"
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.touch(mode=0o600, exist_ok=True)
            target = f"{self.path.resolve().as_uri()}?mode=rw"
        return sqlite3.connect(
            target,
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _prepare(self) -> None:
        with self.reading() as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            found = self._found_version(connection)
            if self.read_only:
                return
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        if found < len(MIGRATIONS):
            self._migrate()

    def _found_version(self, connection: sqlite3.Connection) -> int:
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        filled = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if owner != APPLICATION_ID and (filled or found):
            raise StoreError(f"{self.path} is not the cockpit's store; {NO_HISTORY}; move it away")
        if found > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} was written by a newer cockpit (version {found}, this one knows "
                f"{len(MIGRATIONS)}); {NO_HISTORY}; update the cockpit"
            )
        if self.read_only and not filled:
            raise EmptyStoreError(f"{self.path} holds nothing yet; {NO_HISTORY}")
        if self.read_only and found < len(MIGRATIONS):
            raise StoreError(f"{self.path} is of an older version ({found}); open the cockpit once")
        return found

    def _migrate(self) -> None:
        with self.writing() as connection:
            found = self._found_version(connection)
            for number, statements in enumerate(MIGRATIONS[found:], start=found + 1):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _not_held(self) -> None:
        """Raise ``StoppedHolderError`` if a stopped process holds the store for writing."""
        beside = (self.path.with_name(f"{self.path.name}-shm"), self.path)
        holder = stopped_holder(beside)
        self._held = holder is not None
        if holder is not None:
            raise StoppedHolderError(f"{self.path}: {stopped_words(holder)}; {NO_HISTORY}")

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                self._not_held()
            raise StoreError(f"{self.path}: {_reason(error)}; {NO_HISTORY}") from error
        except OSError as error:
            what = error.strerror or str(error)
            raise StoreError(f"{self.path}: {what}; {NO_HISTORY}") from error


class StoreView:
    """What one concern keeps in the store.

    ``run`` is always a ``run_key``, and every method raises ``StoreError``.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def writes(self) -> bool:
        """False if the store is only read: then nothing may act."""
        return not self._store.read_only


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file lies at ``path`` now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return f"the file is corrupt ({text}); move it away to begin a new one"
    if "readonly" in text or "unable to open" in text:
        return f"cannot be opened for writing ({text})"
    if "full" in text:
        return "the disk is full"
    if "locked" in text:
        return f"another process has kept it locked for {BUSY_SECONDS:.0f} s"
    return text


def pack(value: Frozen) -> str:
    """Return ``value`` as JSON text (NaN and infinities as Python writes them)."""
    return json.dumps(value.model_dump(mode="python"), separators=(",", ":"))


def unpack(kind: type[V], text: str) -> V | None:
    """Return the value, or ``None`` if another version of the cockpit wrote another shape."""
    try:
        return kind.model_validate(_with_lines(json.loads(text)))
    except (ValidationError, json.JSONDecodeError):
        return None


def _with_lines(document: object) -> object:
    """Make log lines displayable again: the file may have been edited since."""
    log = document.get("facets", {}).get("log", {}) if isinstance(document, dict) else {}
    value = log.get("value")
    if value:
        value["lines"] = [safe_line(str(line)) for line in value.get("lines", ())]
    return document
