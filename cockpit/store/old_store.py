"""Takes over the store of older cockpits, which all machines with this home shared.

They kept one ``store.sqlite``. Where several machines wrote it, they took turns by numbered files
in ``store.sqlite.locks``: the highest names the holder, the guarded file, and whether it is held.
Whoever opens first copies all of it into its own store, and leaves a mark in its place, which no
older cockpit opens. Everybody else finds the mark and begins an empty store of their own.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from cockpit.runtime.regular import open_regular
from cockpit.store.ownership import Holder, lives, this_holder
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.store import OLD_NAME, unpack

TAKEN: Final = 1_000_000
"""The version of a mark: older cockpits refuse it as a store of a newer one."""
SILENT: Final = 6.0
"""Seconds without a sign of life (one is due each second) after which a holder counts as gone."""
WAIT: Final = 8.0
LOOK: Final = 0.1
SIZE: Final = 2048
"""Bytes of each numbered file; older cockpits count on it."""


class OldStoreError(Exception):
    """The old store cannot be taken over now; one line says why and what to do."""


def old_store(path: Path) -> Path | None:
    """Return the old store beside ``path`` if nobody has taken it over yet."""
    old = path.with_name(OLD_NAME)
    if path.name == OLD_NAME or not os.path.lexists(old) or _version(old) == TAKEN:
        return None
    return old


def taken_by(path: Path) -> str | None:
    """Return the name of the store that has taken over the old one beside ``path``."""
    mark = path.with_name(OLD_NAME)
    if path.name == OLD_NAME or _version(mark) != TAKEN:
        return None
    with closing(sqlite3.connect(f"{mark.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return str(connection.execute("SELECT store FROM taken_over").fetchone()[0])


def take_over_old_store(path: Path) -> None:
    """Make ``path``, which is not there, from the old store beside it, if that is there.

    A kill at any moment leaves either the old store or a finished copy, which is found again.
    Raises ``OldStoreError``, ``sqlite3.Error`` or ``OSError``.
    """
    copy = path.with_name(f"{path.name}.taking")
    if old_store(path) is not None:
        with _turn(path.with_name(OLD_NAME)) as old:
            _copy_and_mark(old, copy, path.name)
    if taken_by(path) == path.name and copy.exists():
        with suppress(FileNotFoundError):  # another process of this machine was faster
            copy.rename(path)


def _copy_and_mark(old: Path, copy: Path, store: str) -> None:
    alone = _locks(old).is_dir()
    target = f"{old.absolute().as_uri()}?mode=rw" + "&vfs=unix-none" * alone
    with closing(sqlite3.connect(target, uri=True, isolation_level=None)) as writer:
        if alone:
            writer.execute("PRAGMA locking_mode = EXCLUSIVE")  # nobody else is there to lock out
        else:
            writer.execute("BEGIN IMMEDIATE")
        if _version(old) == TAKEN:  # while this process waited
            return
        _check(writer)
        with closing(writer if alone else sqlite3.connect(target, uri=True)) as reader:
            for each in (copy, *(copy.with_name(copy.name + end) for end in ("-wal", "-shm"))):
                each.unlink(missing_ok=True)
            _copy(reader, copy)
        if not alone:
            _rename_tables(writer)
        _mark(old, store)
        if not alone:
            writer.execute("COMMIT")


def _rename_tables(old: sqlite3.Connection) -> None:
    """Let an older cockpit fail that waits to write into this very file."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (table,) in old.execute(query).fetchall():
        old.execute(f"ALTER TABLE {table} RENAME TO taken_{table}")


def _check(old: sqlite3.Connection) -> None:
    """Raise ``OldStoreError`` unless this is a store that this version can read and go on with."""
    version = int(old.execute("PRAGMA user_version").fetchone()[0])
    if int(old.execute("PRAGMA application_id").fetchone()[0]) != APPLICATION_ID:
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


def _mark(old: Path, store: str) -> None:
    """Put a mark in the old store's place, under every name that it is known by."""
    mark = old.with_name(f".{OLD_NAME}.{secrets.token_hex(4)}")
    mark.touch(mode=0o600)
    with closing(sqlite3.connect(mark, isolation_level=None)) as made:
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.execute(f"PRAGMA user_version = {TAKEN}")
        made.execute("CREATE TABLE taken_over (store TEXT NOT NULL)")
        made.execute("INSERT INTO taken_over VALUES (?)", (store,))
    _sync(mark)
    if old.name != OLD_NAME:
        shown = mark.with_name(f"{mark.name}-shown")
        os.link(mark, shown)
        mark.replace(old)
        mark = shown
    mark.replace(old.with_name(OLD_NAME))
    for end in ("-wal", "-shm", "-journal"):
        old.with_name(old.name + end).unlink(missing_ok=True)
    _sync(old.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _version(path: Path) -> int | None:
    """Return the version in a database's head; ``None`` for what is not there."""
    try:
        with open_regular(str(path)) as (handle, _):
            return int.from_bytes(os.pread(handle, 4, 60), "big")
    except FileNotFoundError:
        return None


def _locks(old: Path) -> Path:
    return old.with_name(f"{OLD_NAME}.locks")


@contextmanager
def _turn(shown: Path) -> Iterator[Path]:
    """Give the file that holds the old store, while no older cockpit of any machine writes it.

    One that never had several machines has no lock of theirs: SQLite's own is enough.
    """
    folder = _locks(shown)
    if not folder.is_dir():
        yield Path(os.path.realpath(shown))
        return
    until, watched, since = time.monotonic() + WAIT, b"", time.monotonic()
    while True:
        number, state = _highest(folder)
        if state != watched:
            watched, since = state, time.monotonic()
        free = not state.startswith(b"held") or time.monotonic() - since >= SILENT
        file = _guarded(folder) or Path(os.path.realpath(shown)).name
        if free and (mine := _take(folder, number + 1, file)) is not None:
            break
        if time.monotonic() >= until:
            raise OldStoreError(f"another machine is writing {OLD_NAME}: end its cockpits first")
        time.sleep(LOOK)
    try:
        yield shown.with_name(file)
    finally:
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
