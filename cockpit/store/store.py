"""The one SQLite file of the cockpit: opened, migrated, and shared by several processes.

Every failure (read-only, full, corrupt, newer, locked) is a ``StoreError`` of one line; the
program goes on without history. Calls block: the event loop reaches them through offload.

Opens the store, also where even that may not come back: a home whose server is away.

What a start needs of it besides: the last reports; and for ``doctor``, how it is kept.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from cockpit.model.base import Frozen
from cockpit.model.clock import Moment
from cockpit.model.report import RunReport
from cockpit.model.wording import moment
from cockpit.runtime.mounts import check_regular, file_system, open_regular
from cockpit.runtime.process import stopped_holder, stopped_words
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.text.safe import safe_line

BUSY_SECONDS = 5.0
SHORT_SECONDS = 0.05
"""How long a locked store is waited for after a wait in vain: the many that follow cost little."""
OLD_NAME = "store.sqlite"
"""The store of older cockpits, which all machines with one home shared (``old_store``)."""
NO_HISTORY = "the cockpit goes on without history"
LOST = "actions, acknowledgements and consents from before are not known any more"
T = TypeVar("T")
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
    files that SQLite keeps beside it. Raises ``StoreError``.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = threading.RLock()
        self._file: tuple[int, int] | None = None
        self._stopped_holds = False
        """Whether a stopped process held it for writing when it was last asked."""
        self._waited_in_vain = False
        """Whether it was locked when it was last asked: then the next wait is a short one."""
        self._connection: sqlite3.Connection | None = None
        self._depth = 0
        self._closed = False
        self._was_open = False
        self._deleted = False
        """Whether this machine had a store here, which is gone."""
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
            wait = SHORT_SECONDS if self._waited_in_vain else BUSY_SECONDS
            connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
            connection.execute("BEGIN IMMEDIATE")
            self._waited_in_vain = False
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
            if not self._depth and (self._connection is None or (anew and self._replaced())):
                self._open(Path(os.path.realpath(self.path)))
            assert self._connection is not None
            self._depth += 1
            try:
                yield self._connection
            finally:
                self._depth -= 1

    def _replaced(self) -> bool:
        assert self._connection is not None
        return self._connection.in_transaction is False and _identity(self.path) != self._file

    def _open(self, file: Path) -> None:
        """Open the file that lies there now; the one opened before may have been removed."""
        self._drop()
        connection = self._connection = self._connect(file)
        self._file = _identity(file)
        self._depth += 1
        try:
            self._prepare(connection)
        except (StoreError, sqlite3.Error):
            self._drop()
            raise
        finally:
            self._depth -= 1

    def _drop(self) -> None:
        self._file = None
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self, file: Path) -> sqlite3.Connection:
        check_files(file)
        if self.read_only:
            self._check_there(file)
            target = unchanged(file)
        else:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not file.exists() and os.path.lexists(self.path.with_name(OLD_NAME)):
                # It begins with what an older cockpit has kept.
                from cockpit.store.old_store import OldStoreError, left_behind, take_over_old_store

                try:
                    take_over_old_store(self.path)
                    self._deleted = left_behind(self.path) is not None
                except OldStoreError as error:
                    raise StoreError(f"{self.path}: {error}; {NO_HISTORY}") from error
                except sqlite3.Error as error:
                    what = f"{self.path.with_name(OLD_NAME)}: {_reason(error)}"
                    raise StoreError(f"{what}; {NO_HISTORY}") from error
            file.touch(mode=0o600, exist_ok=True)
            target = f"{file.as_uri()}?mode=rw"
        return sqlite3.connect(
            target,
            uri=True,
            timeout=SHORT_SECONDS if self._waited_in_vain else BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _check_there(self, file: Path) -> None:
        """Raise ``StoreError`` if there is nothing to read, and say whether there should be."""
        if file.exists():
            return
        if os.path.lexists(self.path.with_name(OLD_NAME)):
            from cockpit.store.old_store import left_behind

            if (why := left_behind(self.path)) is not None:
                raise StoreError(why)
        raise EmptyStoreError(f"{self.path} is not there yet; {NO_HISTORY}")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        found = self._found_version(connection)
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")
            return
        local = file_system(self.path.absolute().parent).shared is False
        with suppress(sqlite3.OperationalError):  # another process has it open as it is
            connection.execute(f"PRAGMA journal_mode = {'WAL' if local else 'TRUNCATE'}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA mmap_size = 0")
        if found < len(MIGRATIONS):
            lost = (self._was_open or self._deleted) and not found
            self._migrate()
            if lost:  # the former file went away while a cockpit was using it
                self.begun_anew = time.time()
                connection.execute("INSERT INTO begun_anew VALUES (?)", (self.begun_anew,))
        self._was_open = True

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
        file = Path(os.path.realpath(self.path))
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
                self._waited_in_vain = True
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

    def _all(self, query: str, *values: object) -> list[Any]:
        """Return the rows that a query finds."""
        with self._store.reading() as connection:
            return connection.execute(query, values).fetchall()

    def _first(self, query: str, *values: object) -> Any:  # noqa: ANN401 - columns of any type
        """Return the first row that a query finds, ``None`` if it finds none."""
        with self._store.reading() as connection:
            return connection.execute(query, values).fetchone()

    def _values(self, kind: Callable[..., T], query: str, *values: object) -> tuple[T, ...]:
        """Return what a query finds as values of a kind: each column is the argument it names."""
        with (
            self._store.reading() as connection,
            # closed even if a row is of another shape: while one is open, nothing later is seen
            closing(connection.execute(query, values)) as found,
        ):
            names = [column[0] for column in found.description]
            return tuple(kind(**dict(zip(names, row, strict=True))) for row in found)

    def _documents(self, kind: type[V], query: str, *values: object) -> tuple[V, ...]:
        """Return the values whose text a query finds, but for those of another version."""
        found = (unpack(kind, str(row[0])) for row in self._all(query, *values))
        return tuple(each for each in found if each is not None)

    def _document(self, kind: type[V], query: str, *values: object) -> V | None:
        """Return the first of them, ``None`` also if another version wrote it."""
        row = self._first(query, *values)
        return None if row is None else unpack(kind, str(row[0]))

    def _change(self, query: str, *values: object) -> int:
        """Run one statement in a transaction; return how many rows it has changed."""
        with self._store.writing() as connection:
            return connection.execute(query, values).rowcount

    def _insert(self, into: str, **row: object) -> sqlite3.Cursor:
        """Insert a row, by its columns, ``INTO`` a table (``OR IGNORE INTO``, ``OR REPLACE …``)."""
        query = f"INSERT {into} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        with self._store.writing() as connection:
            return connection.execute(query, tuple(row.values()))

    def _change_all(self, query: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of these rows, in one transaction."""
        with self._store.writing() as connection:
            connection.executemany(query, rows)


def instant(moment: Moment) -> dict[str, object]:
    """Return the columns that say when something was, by both clocks."""
    return {"at": moment.wall, "steady": moment.steady, "boot": moment.boot}


def _undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def check_files(path: Path) -> None:
    """Raise ``OSError`` unless a store's files, those that are there, are regular ones."""
    for end in ("", "-journal", "-wal", "-shm"):
        check_regular(path.with_name(path.name + end))


def unchanged(file: Path) -> str:
    """Return how SQLite reads a store without changing anything in its folder.

    A file with a log of writes is read as it lies while nobody has it open.
    """
    live = not _has_log(file) or file.with_name(f"{file.name}-wal").exists()
    return f"{file.absolute().as_uri()}?mode=ro{'' if live else '&immutable=1'}"


def _has_log(file: Path) -> bool:
    """Return whether SQLite keeps a write-ahead log for it."""
    with open_regular(str(file)) as (handle, _):
        return os.pread(handle, 2, 18) == b"\2\2"


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


OTHERS_WRITE: Final = 0o022
OPEN_WITHIN: Final = 9.0
"""Seconds: longer than a store waits for whoever has locked it."""


class Opening:
    """A store that is being opened, from now on, in a thread of its own."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._opened: list[Store] = []
        self._trouble: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._work, args=(read_only,), name="opens the store", daemon=True
        )
        self._thread.start()

    def store(self, seconds: float = OPEN_WITHIN) -> Store:
        """Return it; raises ``StoreError``, also without an answer in ``seconds`` from now."""
        self._thread.join(seconds)
        if self._trouble:
            raise self._trouble[0]
        if not self._opened:
            raise StoreError(f"{self._path}: no answer within {seconds:g} s; {NO_HISTORY}")
        return self._opened[0]

    def _work(self, read_only: bool) -> None:
        try:
            self._opened.append(Store(self._path, read_only=read_only))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._trouble.append(error)


def close_to_others(path: Path) -> str | None:
    """Take from others the right to write into the store's folder; say so if they had it.

    Only a folder of ours is changed; of another account's it is said alone.
    """
    folder = path.parent
    try:
        found = folder.stat()
        if not found.st_mode & OTHERS_WRITE:
            return None
        said = f"{folder} could be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
        if found.st_uid != os.geteuid():
            return f"{said} and belongs to another account (uid {found.st_uid}): move it away"
        folder.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)
    except OSError:
        return None
    return f"{said}; it is closed to them now: check that nobody has changed what lies there"


def open_within(path: Path, *, read_only: bool = False, seconds: float = OPEN_WITHIN) -> Store:
    """Return the open store; raises ``StoreError``, also when there is no answer in time."""
    return Opening(path, read_only=read_only).store(seconds)


class ReportMemory(StoreView):
    """What was known of each run the last time."""

    def save_reports(self, reports: Iterable[tuple[str, RunReport]]) -> None:
        """Keep each run's last report, so that the next start shows the last known state."""
        rows = [(run, report.checked_at, pack(report)) for run, report in reports]
        self._change_all(
            "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE"
            " SET at = excluded.at, document = excluded.document WHERE excluded.at >= at",
            rows,
        )

    def report(self, run: str) -> RunReport | None:
        """Return the last report that any cockpit made of this run."""
        return self._document(RunReport, "SELECT document FROM reports WHERE run = ?", run)


def described(path: Path) -> str:
    """Open the store for writing and return how it is kept; raises ``StoreError``."""
    from cockpit.store.old_store import taken_by

    store = open_within(path)
    try:
        with store.writing() as connection:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            lost = connection.execute("SELECT max(at) FROM begun_anew").fetchone()[0]
            if lost is not None:
                return f"{path} can be written, but {loss_text(lost)}"
            owner = taken_by(path)
            former = "" if owner in (None, path.name) else f"; {OLD_NAME} was taken into {owner}"
            kept = file_system(path.absolute().parent).text
            return f"{path} can be written: {kept}; journal {mode}{former}"
    finally:
        store.close()


def loss_text(at: float) -> str:
    """Return what it means that this machine's store was deleted."""
    return f"it was deleted and begun anew at {moment(at)}: {LOST}"
