"""Which messages went by which route: claimed before they are sent, so that none goes twice.

A row is one event on one route. ``done`` is 1 once it needs no more sending. ``trouble`` is
``NULL`` while it is being sent (or was sent), a few words after a failure, and ``held`` for what
the rate limit kept back for a summary. ``at`` is the time of the last attempt.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from cockpit.store.store import StoreView

WINDOW: Final = 600.0
"""Seconds over which the messages of one route are counted."""
BACK_OFF: Final = (30.0, 120.0, 480.0, 1920.0)
"""Seconds before each further attempt after a failure; after the last one it is given up."""
LOST_AFTER: Final = 90.0
"""Seconds after which a message that is being sent counts as lost: its sender was killed."""
KEEP: Final = 180 * 86400.0
HELD: Final = "held"
GATHER: Final = 60.0
"""Seconds for which kept back messages gather before a summary tells of them."""


class SendClaim(Enum):
    """Whether the caller is to send a message now."""

    MINE = "mine"
    NOT_NOW = "not now"
    DONE = "done"
    HELD = "held"


class Asked(NamedTuple):
    """A message that wants to go by a route.

    ``covered_by`` are events that make it needless, ``once_more`` allows one more attempt after
    a lost answer, ``most`` is the rate limit (``None``: it does not count here), ``at_once``
    does not wait for the back-off.
    """

    run: str
    event: str
    route: str
    covered_by: tuple[str, ...] = ()
    once_more: bool = False
    most: int | None = None
    at_once: bool = False


class Sent(NamedTuple):
    """What the store knows of one event on one route."""

    event: str
    route: str
    at: float
    done: bool
    trouble: str | None

    @property
    def needs_no_more(self) -> bool:
        """Whether it was sent, given up, or kept back for a summary."""
        return self.done or self.trouble == HELD


class Held(NamedTuple):
    """Messages that the rate limit kept back on one route: the run and the event of each."""

    runs: tuple[str, ...]
    events: tuple[str, ...]


class Notified(StoreView):
    """The claims."""

    def claim(self, asked: Asked, now: float) -> SendClaim:
        """Take a message for sending, in one transaction that other processes wait for."""
        with self._store.writing() as connection:
            return _claim(connection, asked, now)

    def settle(
        self, asked: Asked, now: float, trouble: str | None = None, *, lost: bool = False
    ) -> None:
        """Record how sending went; a ``lost`` answer counts as sent unless it may go once more."""
        with self._store.writing() as connection:
            tries = _row(connection, asked)[1]
            done = trouble is None or (lost and not (asked.once_more and tries < 2))
            done = done or tries > len(BACK_OFF)
            connection.execute(
                "UPDATE notified SET at = ?, done = ?, trouble = ?"
                " WHERE run = ? AND event = ? AND route = ?",
                (now, done, trouble, asked.run, asked.event, asked.route),
            )

    def of(self, run: str, prefix: str) -> tuple[Sent, ...]:
        """Return what was claimed for events of a run that begin with ``prefix``."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT event, route, at, done, trouble FROM notified"
                " WHERE run = ? AND substr(event, 1, ?) = ? ORDER BY at",
                (run, len(prefix), prefix),
            ).fetchall()
        return tuple(Sent(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows)

    def claim_summary(self, file: str, route: str, event: str, now: float) -> Held | None:
        """Take what was kept back for the runs of ``file`` (the beginning of their ``run_key``).

        ``None`` if there is nothing, if it is too young (more may follow), or if another
        summary went by this route within the window.
        """
        with self._store.reading() as connection:
            if not _held(connection, file, route):
                return None
        with self._store.writing() as connection:
            rows = _held(connection, file, route)
            last = connection.execute(
                "SELECT max(at) FROM notified WHERE run = ? AND route = ?", (file, route)
            ).fetchone()[0]
            young = not rows or 0 <= now - rows[0][2] < GATHER
            if young or (last is not None and 0 <= now - last < WINDOW):
                return None
            connection.execute(
                "INSERT OR REPLACE INTO notified (run, event, route, at, tries, done)"
                " VALUES (?, ?, ?, ?, 1, 1)",
                (file, event, route, now),
            )
            _set_done(connection, route, rows, done=True)
        return Held(tuple(row[0] for row in rows), tuple(row[1] for row in rows))

    def release_summary(self, route: str, held: Held) -> None:
        """Keep back again what a summary could not tell; the window passes before the next."""
        with self._store.writing() as connection:
            rows = list(zip(held.runs, held.events, strict=True))
            _set_done(connection, route, rows, done=False)

    def prune(self, now: float) -> None:
        """Forget what is older than half a year."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM notified WHERE at < ?", (now - KEEP,))


def _claim(connection: sqlite3.Connection, asked: Asked, now: float) -> SendClaim:
    if any(_row(connection, asked._replace(event=each))[3] != "" for each in asked.covered_by):
        return SendClaim.DONE
    at, tries, done, trouble = _row(connection, asked)
    if done:
        return SendClaim.DONE
    if trouble == HELD and not asked.at_once:
        return SendClaim.HELD
    if tries and trouble is None and 0 <= now - at < LOST_AFTER:
        return SendClaim.NOT_NOW
    if tries and trouble is None and not (asked.once_more and tries < 2):
        _write(connection, asked, at, tries, done=True, trouble="its sender was killed")
        return SendClaim.DONE
    waits = BACK_OFF[min(tries, len(BACK_OFF)) - 1] if tries else 0.0
    if trouble is not None and not asked.at_once and 0 <= now - at < waits:
        return SendClaim.NOT_NOW
    if not tries and asked.most is not None and _lately(connection, asked, now) >= asked.most:
        _write(connection, asked, now, 0, done=False, trouble=HELD)
        return SendClaim.HELD
    _write(connection, asked, now, tries + 1, done=False, trouble=None)
    return SendClaim.MINE


def _row(connection: sqlite3.Connection, asked: Asked) -> tuple[float, int, bool, str | None]:
    """Return (at, tries, done, trouble); the trouble of a row that is not there is ``""``."""
    row = connection.execute(
        "SELECT at, tries, done, trouble FROM notified WHERE run = ? AND event = ? AND route = ?",
        (asked.run, asked.event, asked.route),
    ).fetchone()
    return (0.0, 0, False, "") if row is None else (row[0], row[1], bool(row[2]), row[3])


def _write(
    connection: sqlite3.Connection,
    asked: Asked,
    at: float,
    tries: int,
    *,
    done: bool,
    trouble: str | None,
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO notified (run, event, route, at, tries, done, trouble)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (asked.run, asked.event, asked.route, at, tries, done, trouble),
    )


def _lately(connection: sqlite3.Connection, asked: Asked, now: float) -> int:
    """Return how many messages went by the route lately, of any run; held ones never went."""
    row = connection.execute(
        "SELECT count(*) FROM notified WHERE route = ? AND at > ? AND at <= ? AND tries > 0",
        (asked.route, now - WINDOW, now),
    ).fetchone()
    return int(row[0])


def _held(
    connection: sqlite3.Connection, file: str, route: str
) -> Sequence[tuple[str, str, float]]:
    return connection.execute(
        "SELECT run, event, at FROM notified WHERE route = ? AND trouble = ? AND done = 0"
        " AND substr(run, 1, ?) = ? ORDER BY at",
        (route, HELD, len(file), file),
    ).fetchall()


def _set_done(
    connection: sqlite3.Connection, route: str, rows: Sequence[Sequence[object]], *, done: bool
) -> None:
    connection.executemany(
        "UPDATE notified SET done = ? WHERE run = ? AND event = ? AND route = ?",
        [(done, row[0], row[1], route) for row in rows],
    )
