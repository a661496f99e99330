"""Signs of life: each process that watches beats every few seconds, whatever its runs' cadence.

A beat is a number that goes up. Who looks on counts how long, by its own clock, a number has not
moved; a look that came late (a machine that slept, or was too busy) counts as one beat at most, so
that what stopped the onlooker as well is not held against the other.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from cockpit.model.clock import Moment
from cockpit.store.store import Store

BEAT: Final = 5.0
QUICKEST: Final = 0.5
"""Seconds between two beats, at most and at least: a shorter cadence has a quicker beat."""
MISSED: Final = 3.0
"""Beats after which a process that has not given one counts as hung."""
LOOKS: Final = 2.5
"""Seconds between two looks of whoever looks on, at most, while nothing holds it up."""
KEPT: Final = 30 * 86400.0


def beat_every(cadence: float) -> float:
    """Return the seconds between two beats of a watch of this cadence."""
    return min(BEAT, max(QUICKEST, cadence))


class Beat(NamedTuple):
    """The newest beat of a process; ``every`` is in seconds."""

    number: int
    at: Moment
    every: float
    stand_in: str | None = None


class StoodIn(NamedTuple):
    """Who told people while a process hung, from when on (epoch s), and since when it hung."""

    who: str
    at: float
    since: float


class _Seen(NamedTuple):
    number: int
    silent: float
    looked_at: Moment


class Beats:
    """Gives beats and listens to those of others; every method raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, _Seen] = {}

    def give(self, process: str, now: Moment, every: float) -> StoodIn | None:
        """Beat; return who has stood in for this process since its last beat."""
        with self._store.writing() as connection:
            row = connection.execute(
                "SELECT stand_in, stood_in_at, at FROM beats WHERE process = ?", (process,)
            ).fetchone()
            connection.execute(
                "INSERT INTO beats (process, count, at, steady, boot, every)"
                " VALUES (?, 1, ?, ?, ?, ?) ON CONFLICT (process) DO UPDATE SET"
                " count = count + 1, at = excluded.at, steady = excluded.steady,"
                " every = excluded.every, stand_in = NULL, stood_in_at = NULL",
                (process, now.wall, now.steady, now.boot, every),
            )
        return None if row is None or row[0] is None else StoodIn(row[0], row[1], row[2])

    def end(self, process: str, now: Moment) -> None:
        """Take a process's beats away as it leaves, and those of the long dead with them."""
        with self._store.writing() as connection:
            connection.execute(
                "DELETE FROM beats WHERE process = ? OR at < ?", (process, now.wall - KEPT)
            )

    def stand_in(self, process: str, who: str, now: Moment) -> None:
        """Write that ``who`` tells people from now on, for the hung process to find."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE beats SET stand_in = ?, stood_in_at = ?"
                " WHERE process = ? AND stand_in IS NULL",
                (who, now.wall, process),
            )

    def silence(
        self, connection: sqlite3.Connection, process: str, now: Moment
    ) -> tuple[Beat, float] | None:
        """Return a process's last beat and how many beats it has missed; ``None``: it never beat.

        At a first look the age of a beat of this boot counts as well, but for the last beat: that
        one is waited for.
        """
        beat = _read(connection, process)
        if beat is None:
            self._seen.pop(process, None)
            return None
        seen = self._seen.get(process)
        if seen is None:
            silent = min(_age(beat, now), (MISSED - 1) * beat.every)
        elif seen.number != beat.number:
            silent = 0.0
        else:
            passed = max(0.0, now.since(seen.looked_at))
            silent = seen.silent + min(passed, max(beat.every, LOOKS))
        self._seen[process] = _Seen(beat.number, silent, now)
        return beat, silent / beat.every


def _age(beat: Beat, now: Moment) -> float:
    """Return the seconds since a beat if one boot has counted both ends, else none."""
    same = beat.at.boot is not None and beat.at.boot == now.boot
    return now.since(beat.at) if same else 0.0


def _read(connection: sqlite3.Connection, process: str) -> Beat | None:
    row = connection.execute(
        "SELECT count, at, steady, boot, every, stand_in FROM beats WHERE process = ?", (process,)
    ).fetchone()
    if row is None:
        return None
    return Beat(row[0], Moment(row[1], row[2], row[3]), row[4], row[5])
