"""One owner per run: who watches it, and whether that process still lives (INTERFACE ``watch``)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.store.store import Store

FORGOTTEN_AFTER = 3.0
"""Cadences without a sign of life after which an owner on another host counts as gone."""


class Owner(Frozen):
    """A process that watches; its start tells it from a later one with the same pid.

    ``ticks`` is that start as the kernel counts it and ``boot`` the boot it counts from: setting
    the machine's clock moves ``started_at``, never these.
    """

    name: str
    host: str
    pid: int
    started_at: Instant | None = None
    ticks: int | None = None
    boot: str | None = None

    @property
    def label(self) -> str:
        """``ada (watch on gpu-box, pid 4211)``, as a message names the owner."""
        return f"{self.name} (watch on {self.host}, pid {self.pid})"


class Owned(Frozen):
    """Who owns a run, since when, and when it last gave a sign of life."""

    owner: Owner
    since: Instant
    heartbeat: Instant
    cadence: Seconds


Alive = Callable[[Owner], bool]
"""Is that very process still alive on this host."""


class Ownership:
    """Claims and gives up runs; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store, host: str, alive: Alive) -> None:
        self._store = store
        self._host = host
        self._alive = alive

    def owner(self, run: str, now: float) -> Owned | None:
        """Return the living owner of a run."""
        with self._store.reading() as connection:
            found = _read(connection, run)
        return found if found is not None and self.lives(found, now) else None

    def lives(self, owned: Owned, now: float) -> bool:
        """Return whether the owner is still there: its process here, its sign of life elsewhere."""
        if owned.owner.host == self._host:
            return self._alive(owned.owner)
        return now - owned.heartbeat <= FORGOTTEN_AFTER * owned.cadence

    def claim(
        self, run: str, me: Owner, now: float, cadence: float, *, takeover: bool = False
    ) -> Owned | None:
        """Take a run for ``me``; return the living owner that is in the way, or ``None``."""
        with self._store.writing() as connection:
            found = _read(connection, run)
            if found is not None and found.owner != me and not takeover and self.lives(found, now):
                return found
            since = found.since if found is not None and found.owner == me else now
            _write(connection, run, me, since, now, cadence)
        return None

    def refresh(self, run: str, me: Owner, now: float, cadence: float) -> Owned | None:
        """Give a sign of life; return who has taken the run over, or ``None`` if it is mine.

        A run that somebody took over and gave up again is taken back.
        """
        with self._store.writing() as connection:
            found = _read(connection, run)
            if found is not None and found.owner != me:
                return found
            _write(connection, run, me, now if found is None else found.since, now, cadence)
        return None

    def release(self, run: str, me: Owner) -> None:
        """Give a run up, if it is mine."""
        with self._store.writing() as connection:
            found = _read(connection, run)
            if found is not None and found.owner == me:
                connection.execute("DELETE FROM owners WHERE run = ?", (run,))


def _write(
    connection: sqlite3.Connection,
    run: str,
    me: Owner,
    since: float,
    now: float,
    cadence: float,
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO owners (run, owner, host, pid, started_at, since, heartbeat,"
        " cadence, ticks, boot) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*(run, me.name, me.host, me.pid, me.started_at, since, now, cadence), me.ticks, me.boot),
    )


def _read(connection: sqlite3.Connection, run: str) -> Owned | None:
    row = connection.execute(
        "SELECT owner, host, pid, started_at, since, heartbeat, cadence, ticks, boot"
        " FROM owners WHERE run = ?",
        (run,),
    ).fetchone()
    if row is None:
        return None
    owner = Owner(
        name=row[0], host=row[1], pid=row[2], started_at=row[3], ticks=row[7], boot=row[8]
    )
    return Owned(owner=owner, since=row[4], heartbeat=row[5], cadence=row[6])
