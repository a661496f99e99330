"""The one SQLite file of the cockpit: opened, migrated, and shared by several processes.

Every failure (read-only, full, corrupt, newer, locked) is a ``StoreError`` of one line; the
program goes on without history. Calls block: the event loop reaches them through offload.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from cockpit.model.base import Frozen
from cockpit.runtime.process import stopped_holder, stopped_words
from cockpit.store.patience import HeldError, Patience
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.shared_file import (
    SHARED_PATIENCE,
    Copied,
    SharedFile,
    StillOpenError,
    TakenOverError,
    check_files,
    followed,
    has_locks,
    is_shared,
)
from cockpit.text.safe import safe_line

BUSY_SECONDS = 5.0
NO_HISTORY = "the cockpit goes on without history"
V = TypeVar("V", bound=Frozen)


class StoreError(Exception):
    """The store cannot be used; the text is one line that says which file, why and what to do."""


class EmptyStoreError(StoreError):
    """Nothing is kept yet: nobody has made the file, or another cockpit does at this moment."""


class StoppedHolderError(StoreError):
    """A process that is stopped holds the store for writing: waiting is in vain."""


def run_key(config_path: str, name: str) -> str:
    """Return a run's identity in the store: its run file and its slug."""
    return f"{Path(config_path).resolve()}#{name}"


class Store:
    """An open store. Safe to call from several threads; one connection, one transaction at a time.

    ``read_only`` opens an existing file without changing anything in its folder, not even the
    files that SQLite keeps beside it. Where several machines may use the file, each transaction
    holds a lock of theirs (``shared_file``). Raises ``StoreError``.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = threading.RLock()
        self._file: tuple[int, int] | None = None
        self._stopped_holds = False
        """Whether a stopped process held it for writing when it was last asked."""
        self._connection: sqlite3.Connection | None = None
        self._shared: SharedFile | None = None
        self._copy: Copied | None = None
        self._depth = 0
        self._closed = False
        self._patience = Patience()
        self._was_open = False
        self.begun_anew: float | None = None
        """When this process found that the file was gone and made another (epoch s)."""
        with self._entered():
            pass

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for reading; raises ``StoreError``.

        Around several readings it makes one of them: what is read then belongs together.
        """
        with self._entered() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one transaction that other processes wait for.

        Inside another ``writing`` of the same thread it joins that transaction.
        """
        with self._entered(anew=True) as connection:
            if connection.in_transaction:
                yield connection
                return
            if self._stopped_holds:
                self._not_held()
            self._begin(connection)
            try:
                yield connection
            except BaseException:
                _undo(connection)
                raise
            try:
                connection.execute("COMMIT")
            except sqlite3.Error:
                _undo(connection)
                raise
            if self._shared is not None:
                self._shared.verify()

    def version(self) -> int:
        """Return a number that changes whenever another process has written."""
        with self.reading() as connection:
            if self._shared is not None:
                return self._shared.foreign
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
            self._closed = True
            self._drop()

    @contextmanager
    def _entered(self, *, anew: bool = False) -> Iterator[sqlite3.Connection]:
        """Give a connection to the file that may be touched now.

        ``anew``: the one that lies there now, should the one opened before have been removed.
        """
        with self._lock, self._explained():
            if self._closed:
                raise sqlite3.ProgrammingError("it was closed")
            if self._depth or not self._is_shared():
                if not self._depth and (self._file is None or (anew and self._replaced())):
                    self._open(followed(self.path))
                with self._inside():
                    yield self._opened()
                return
            if self._shared is None:
                self._drop()  # a store of this machine alone until now, in the way of that
            with self._held(self._shared or SharedFile(followed(self.path))):
                yield self._opened()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def _held(self, shared: SharedFile) -> Iterator[None]:
        """Hold the lock of a shared store, with a connection that shows what others have done."""
        with self._patience.spent(SHARED_PATIENCE) as wait:
            file = shared.enter(wait)
        try:
            with self._inside():
                if self._shared is None or self._file is None or not file.same:
                    self._shared = shared
                    self._open(file.file)
                yield
        finally:
            shared.leave()

    def _is_shared(self) -> bool:
        """Return whether each transaction needs the lock; a store may become one that does."""
        if self.read_only or self._shared is not None:
            return not self.read_only
        real = followed(self.path)
        return is_shared(real) if self._file is None else has_locks(real)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _replaced(self) -> bool:
        return self._opened().in_transaction is False and _identity(self.path) != self._file

    def _begin(self, connection: sqlite3.Connection) -> None:
        with self._patience.spent(BUSY_SECONDS) as wait:
            connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
            connection.execute("BEGIN IMMEDIATE")

    def _open(self, file: Path) -> None:
        """Open the file that lies there now; the one opened before may have been removed."""
        self._drop()
        with self._patience.spent(BUSY_SECONDS) as wait:
            connection = self._connection = self._connect(file, wait)
            self._file = _identity(file)
            try:
                with self._inside():
                    self._prepare(connection)
            except (StoreError, sqlite3.Error):
                self._drop()
                raise

    def _drop(self) -> None:
        self._file = None
        if self._connection is not None:
            self._connection.close()
        if self._copy is not None:
            self._copy.drop()
        self._connection = self._copy = None

    def _connect(self, file: Path, wait: float) -> sqlite3.Connection:
        if self._shared is not None:
            target = self._shared.target(file)
        elif self.read_only:
            target = self._unchanged(file)
        else:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_files(file)
            file.touch(mode=0o600, exist_ok=True)
            target = f"{file.as_uri()}?mode=rw"
        return sqlite3.connect(
            target,
            uri=True,
            timeout=wait,
            isolation_level=None,
            check_same_thread=False,
        )

    def _unchanged(self, file: Path) -> str:
        """Return how SQLite reads a store without changing anything in its folder."""
        check_files(file)
        if not file.exists():
            raise EmptyStoreError(f"{self.path} is not there yet; {NO_HISTORY}")
        if is_shared(file):
            self._copy = Copied(file, BUSY_SECONDS)
            return f"{self._copy.file.as_uri()}?mode=rw"
        # a file that nobody has open is read as it lies
        live = file.with_name(f"{file.name}-wal").exists()
        return f"{file.as_uri()}?{'mode=ro' if live else 'mode=ro&immutable=1'}"

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        found = self._found_version(connection)
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")
            return
        mode = "WAL" if self._shared is None else "TRUNCATE"
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA mmap_size = 0")
        if found < len(MIGRATIONS):
            lost = self._was_open and not found
            self._migrate()
            if lost:
                self._note_loss(connection)
        self._was_open = True

    def _note_loss(self, connection: sqlite3.Connection) -> None:
        """Keep in the new file that the former one went away while a cockpit was using it."""
        self.begun_anew = time.time()
        connection.execute("INSERT INTO begun_anew VALUES (?)", (self.begun_anew,))

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
        file = followed(self.path)
        holder = stopped_holder((file.with_name(f"{file.name}-shm"), file))
        self._stopped_holds = holder is not None
        if holder is not None:
            raise StoppedHolderError(f"{self.path}: {stopped_words(holder)}; {NO_HISTORY}")

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
        except (HeldError, TakenOverError, StillOpenError) as error:
            raise StoreError(f"{self.path}: {error}; {NO_HISTORY}") from error


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


def _undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


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
    plain = value.model_dump(mode="python")
    try:
        return to_json(plain, inf_nan_mode="constants").decode()  # twice as fast as ``json``
    except PydanticSerializationError:  # half a surrogate pair, as a file name may hold one
        return json.dumps(plain, separators=(",", ":"))


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
