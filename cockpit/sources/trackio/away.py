"""A SQLite file on an ssh host: fetched whole with its log, in one trip that measures it twice."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cockpit.model.place import Place
from cockpit.sources.logs.pieces import Answer, Ask, Piece, Told
from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.logs.remote import Host, on_our_clock
from cockpit.sources.trackio.copies import JOURNAL, WAL, BusyError, Original, State, connected

MOST: Final = 32 << 20
"""Bytes of a database and its log that are fetched."""
TRIES: Final = 2
COPYING: Final = 8.0
"""Seconds for one trip that brings all of it."""
WHOLE_SECONDS: Final = 2.0
"""Seconds for which a file must have been left alone where its times are told in whole ones."""
_SLACK: Final = 1 << 20
_WHOLE: Final = Wish((Span(0),))


class FileThere(Original):
    """A database on a host. ``now``: epoch, s."""

    def __init__(self, place: Place, host: Host, now: Callable[[], float] = time.time) -> None:
        super().__init__(place)
        self._host = host
        self._now = now

    def state(self) -> State:
        """Return what the host says of it and its log."""
        return _state(self._host.ask(self._asks()))

    def opened(self, state: State) -> tuple[State, sqlite3.Connection]:
        """Fetch and open it; one that SQLite finds torn is not."""
        if state.size > MOST:
            text = f"{state.size >> 20} MB: no more than {MOST >> 20} MB of a database are fetched"
            raise OSError(errno.EFBIG, text)
        for _ in range(TRIES):
            before, after = self._fetched()
            if _unchanged(before, after):
                return _state(before), _opened(before)
        raise BusyError

    def _asks(self, wish: Wish = Wish()) -> list[Ask]:  # noqa: B008 - it is a constant
        path = self.place.path
        return [Ask(path, wish), Ask(path + WAL, wish), Ask(path + JOURNAL)]

    def _fetched(self) -> tuple[list[Told], list[Told]]:
        """Return what was told of the files with their bytes, and once more behind those."""
        first, second = Piece(self._asks(_WHOLE), MOST + _SLACK), Piece(self._asks())
        sent = self._now()
        script = "".join(f"(\n{piece.script}\n)\n" for piece in (first, second))
        out = self._host.script(script, COPYING, MOST + 2 * _SLACK)
        got = self._now()
        before, after = (
            [on_our_clock(told, sent, got) for told in piece.answers(out)]
            for piece in (first, second)
        )
        return before, after


def _state(told: Sequence[Told]) -> State:
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
    if _state(before) != _state(after):
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


def _opened(told: Sequence[Told]) -> sqlite3.Connection:
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
