"""Whose turn it is to write what is due once a period: one row for each kind of record of a run.

A turn is claimed by compare-and-swap in one transaction, begun at the last moment before it is
written, and done. One that was claimed and not begun is soon anybody's, since ``begin`` then fails
for whoever was late; one that was begun is only taken over from a process that has died, and then
whoever does so must look whether it was written.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from cockpit.model.clock import Moment
from cockpit.store.ownership import Owner
from cockpit.store.store import Store, StoreView, pack, unpack

CLAIMED_FOR: Final = 60.0
"""Seconds within which a claimed turn must be begun."""
_CLAIMED, _BEGUN, _DONE = "claimed", "begun", "done"


class Turn(NamedTuple):
    """A turn that is ours; ``again``: a process that died had begun it, perhaps written it.

    ``at`` is when it was claimed first: the time of what is written, also by whoever takes over.
    """

    run: str
    what: str
    at: Moment
    claim: str
    again: bool = False


class NotOursError(ValueError):
    """The turn was not begun in time, and is another cockpit's now."""


class Turns(StoreView):
    """The turns as the process ``me`` sees them.

    ``died`` tells whether a process is surely gone; one of another machine never is.
    """

    def __init__(self, store: Store, me: Owner, died: Callable[[Owner], bool]) -> None:
        super().__init__(store)
        self._me = me
        self._died = died

    def take(self, run: str, what: str, every: float, now: Moment) -> Turn | None:
        """Claim the turn of a period that lasts ``every`` s; ``None`` if it is not due or taken."""
        with self._store.writing() as connection:
            found = _read(connection, run, what)
            if found is None or self._over(found, every, now):
                turn = Turn(run, what, now, uuid.uuid4().hex)
            elif found.state != _DONE and self._free(found, now):
                again = found.state == _BEGUN
                turn = Turn(run, what, found.at, uuid.uuid4().hex, again)
            else:
                return None
            _write(connection, turn, pack(self._me))
        return turn

    def begin(self, turn: Turn) -> None:
        """Say that it is written now; raises ``NotOursError``."""
        with self._store.writing() as connection:
            if not _step(connection, turn, _CLAIMED, _BEGUN):
                raise NotOursError(f"{turn.what}: another cockpit is writing it")

    def done(self, turn: Turn) -> None:
        """Say that it is written, or cannot be: the next one is due a period after it."""
        with self._store.writing() as connection:
            _step(connection, turn, _CLAIMED, _DONE)
            _step(connection, turn, _BEGUN, _DONE)

    def _over(self, found: _Row, every: float, now: Moment) -> bool:
        """Tell whether the period is over, whatever became of its turn."""
        return not 0 <= now.since(found.at) < every

    def _free(self, found: _Row, now: Moment) -> bool:
        late = found.state == _CLAIMED and now.since(found.at) >= CLAIMED_FOR
        return late or (found.claimant is not None and self._died(found.claimant))


class _Row(NamedTuple):
    at: Moment
    state: str
    claimant: Owner | None


def _read(connection: sqlite3.Connection, run: str, what: str) -> _Row | None:
    row = connection.execute(
        "SELECT at, steady, boot, state, claimant FROM turns WHERE run = ? AND what = ?",
        (run, what),
    ).fetchone()
    return None if row is None else _Row(Moment(*row[:3]), row[3], unpack(Owner, row[4]))


def _write(connection: sqlite3.Connection, turn: Turn, claimant: str) -> None:
    at = turn.at
    connection.execute(
        "INSERT OR REPLACE INTO turns (run, what, at, steady, boot, claim, claimant, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (turn.run, turn.what, at.wall, at.steady, at.boot, turn.claim, claimant, _CLAIMED),
    )


def _step(connection: sqlite3.Connection, turn: Turn, old: str, new: str) -> bool:
    done = connection.execute(
        "UPDATE turns SET state = ? WHERE run = ? AND what = ? AND claim = ? AND state = ?",
        (new, turn.run, turn.what, turn.claim, old),
    )
    return done.rowcount == 1
