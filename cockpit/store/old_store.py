"""Takes over the store of older cockpits, which all machines with this home shared.

They kept one ``store.sqlite``. Where several machines wrote it, they took turns by numbered files
in ``store.sqlite.locks``: the highest names the holder, the guarded file, and whether it is held.
Whoever opens first copies all of it into its own store, and marks it in one transaction so that no
older cockpit opens it. Everybody else finds the mark and begins an empty store of their own.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from cockpit.store.ownership import Holder, lives, this_holder
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.store import LOST, OLD_NAME, check_files, unchanged, unpack

TAKEN: Final = 1_000_000
"""The version of a marked store: older cockpits refuse it as one of a newer cockpit."""
SILENT: Final = 6.0
"""Seconds without a sign of life after which a holder counts as gone."""
WAIT: Final = 8.0
"""Seconds for which another's turn is waited for, within those that an opening has."""
LOOK: Final = 0.1
SIZE: Final = 2048
"""Bytes of each numbered file; older cockpits count on it."""


class OldStoreError(Exception):
    """The old store cannot be taken over now; one line says why and what to do."""


def old_store(path: Path) -> Path | None:
    """Return the old store beside ``path`` if nobody has taken it over yet."""
    old = path.with_name(OLD_NAME)
    if path.name == OLD_NAME or not os.path.lexists(old) or taken_by(path) is not None:
        return None
    return old


def taken_by(path: Path) -> str | None:
    """Return the name of the store that has taken over the old one beside ``path``.

    ``None`` also where a cut-off write must be undone first: whoever takes over does that.
    """
    old = path.with_name(OLD_NAME)
    if path.name == OLD_NAME or not old.exists():
        return None
    check_files(old)
    with suppress(sqlite3.Error), closing(_connect(unchanged(old))) as connection:
        return _taker(connection)
    return None


def left_behind(path: Path) -> str | None:
    """Say why ``path``, which is not there, is more than a store that nobody has begun."""
    if (old := old_store(path)) is not None:
        return f"{old} is of an older version; open the cockpit once"
    if taken_by(path) != path.name:
        return None
    if _copy_of(path).exists():
        return f"{path} was not finished when it took over {OLD_NAME}; open the cockpit once"
    return None if path.exists() else f"{path} was deleted; {LOST}"


def take_over_old_store(path: Path) -> None:
    """Make ``path``, which is not there, from the old store beside it, if that is there.

    A kill at any moment leaves either the old store or a finished copy, which is found again.
    Raises ``OldStoreError``, ``sqlite3.Error`` or ``OSError``.
    """
    copy = _copy_of(path)
    if old_store(path) is not None:
        with _turn(path.with_name(OLD_NAME)) as turn:
            _copy_and_mark(turn, copy, path.name)
    if taken_by(path) == path.name and copy.exists():
        with suppress(FileNotFoundError):  # another process of this machine was faster
            copy.rename(path)


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.taking")


def _taker(connection: sqlite3.Connection) -> str | None:
    """Return what the mark in an old store says."""
    if int(connection.execute("PRAGMA user_version").fetchone()[0]) != TAKEN:
        return None
    return str(connection.execute("SELECT store FROM taken_over").fetchone()[0])


def _copy_and_mark(turn: _Turn, copy: Path, store: str) -> None:
    """Copy the old store and mark it, in one transaction of SQLite's.

    Nothing else may open its file here: closing that would drop the locks of this transaction.
    """
    target = f"{turn.file.absolute().as_uri()}?mode=rw" + "&vfs=unix-none" * turn.alone
    with closing(_connect(target)) as writer:
        if turn.alone:
            writer.execute("PRAGMA locking_mode = EXCLUSIVE")  # nobody else is there to lock out
        else:
            writer.execute("BEGIN IMMEDIATE")
        if _taker(writer) is not None:  # while this process waited
            return
        _check(writer)
        for each in (copy, *(copy.with_name(copy.name + end) for end in ("-wal", "-shm"))):
            each.unlink(missing_ok=True)
        with nullcontext(writer) if turn.alone else closing(_connect(target)) as reader:
            _copy(reader, copy)  # from a connection that writes nothing: SQLite wants it so
        if turn.alone:
            turn.check()  # its copy took too long: then it writes nothing, not even a journal
            writer.execute("BEGIN IMMEDIATE")
        _mark(writer, store)
        turn.check()
        writer.execute("COMMIT")


def _connect(target: str) -> sqlite3.Connection:
    return sqlite3.connect(target, uri=True, isolation_level=None)


def _mark(old: sqlite3.Connection, store: str) -> None:
    """Leave the old store to nobody: no older cockpit opens it, and one that has it open fails."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (table,) in old.execute(query).fetchall():
        old.execute(f'ALTER TABLE "{table}" RENAME TO "taken_{table}"')
    old.execute("CREATE TABLE taken_over (store TEXT NOT NULL)")
    old.execute("INSERT INTO taken_over VALUES (?)", (store,))
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute(f"PRAGMA user_version = {TAKEN}")


def _check(old: sqlite3.Connection) -> None:
    """Raise ``OldStoreError`` unless this is a store that this version can read and go on with."""
    version = int(old.execute("PRAGMA user_version").fetchone()[0])
    owner = int(old.execute("PRAGMA application_id").fetchone()[0])
    filled = old.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if owner != APPLICATION_ID and (version or filled):
        raise OldStoreError(f"{OLD_NAME} beside it is not the cockpit's; move it away")
    if version > len(MIGRATIONS):
        raise OldStoreError(f"{OLD_NAME} beside it is of a newer cockpit; update this one")
    leases = old.execute("SELECT holder FROM leases").fetchall() if version > 1 else ()
    holders = (unpack(Holder, str(row[0])) for row in leases)
    acting = next((each for each in holders if each is not None and lives(each)), None)
    if acting is not None:
        raise OldStoreError(f"an older cockpit ({acting.label}) is acting: let it end first")


def _copy(old: sqlite3.Connection, copy: Path) -> None:
    """Copy all of the old store so that it lasts; raises ``OldStoreError`` if it is torn."""
    copy.touch(mode=0o600)
    with closing(sqlite3.connect(copy, isolation_level=None)) as made:
        old.backup(made)
        made.execute("PRAGMA journal_mode = DELETE")  # one whole file, to be renamed
        if made.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
            raise OldStoreError(f"{OLD_NAME} beside it is not whole; move it away to begin anew")
    _sync(copy)
    _sync(copy.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Turn:
    """The right to take over ``file``; ``alone``: it holds against other machines as well."""

    def __init__(self, file: Path, number: Path | None = None) -> None:
        self.file = file
        self.alone = number is not None
        self._number = number

    def check(self) -> None:
        """Raise ``OldStoreError`` if another machine has taken this process for dead."""
        number = self._number
        if number is not None and max(_numbers(number.parent), default=0) != int(number.name):
            raise OldStoreError(f"another machine took {OLD_NAME} over meanwhile: try again")


@contextmanager
def _turn(shown: Path) -> Iterator[_Turn]:
    """Give the file that holds the old store, while no older cockpit of any machine writes it.

    One that never had several machines has no lock of theirs: SQLite's own is enough.
    """
    folder = shown.with_name(f"{OLD_NAME}.locks")
    if not folder.is_dir():
        yield _Turn(Path(os.path.realpath(shown)))
        return
    until = time.monotonic() + WAIT
    seen, since = _highest(folder), time.monotonic()
    while True:
        found = number, state = _highest(folder)
        if found != seen:  # it lives, or another has its turn now
            seen, since = found, time.monotonic()
        free = not state.startswith(b"held") or time.monotonic() - since >= SILENT
        file = _guarded(folder) or Path(os.path.realpath(shown)).name
        if free and (mine := _take(folder, number + 1, file)) is not None:
            break
        if time.monotonic() >= until:
            raise OldStoreError(f"another machine is writing {OLD_NAME}: end its cockpits first")
        time.sleep(LOOK)
    try:
        yield _Turn(shown.with_name(file), mine)
    finally:
        with suppress(OSError):
            mine.write_bytes(_text("free", file))


def _numbers(folder: Path) -> list[int]:
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())


def _highest(folder: Path) -> tuple[int, bytes]:
    number = max(_numbers(folder), default=0)
    with suppress(FileNotFoundError):
        return number, (folder / f"{number:012d}").read_bytes()
    return number, b""


def _guarded(folder: Path) -> str | None:
    """Return the name of the file that the newest readable holder guards."""
    for number in reversed(_numbers(folder)):
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            text = (folder / f"{number:012d}").read_bytes().partition(b"\n")[2]
            return str(json.loads(text)["file"])
    return None


def _take(folder: Path, number: int, file: str) -> Path | None:
    """Put the next number there, whole, if nobody else has; a link is never made twice."""
    fresh, place = folder / f".{number}.{secrets.token_hex(8)}", folder / f"{number:012d}"
    fresh.write_bytes(_text("held", file))
    try:
        os.link(fresh, place)
    except FileExistsError:
        return None
    finally:
        fresh.unlink()
    return place if max(_numbers(folder)) == number else None


def _text(state: str, file: str) -> bytes:
    said = {"holder": this_holder().model_dump(), "nonce": secrets.token_hex(8), "file": file}
    text = f"{state} {0:012d}\n{json.dumps(said)}"
    return text.encode().ljust(SIZE - 1) + b"\n"
