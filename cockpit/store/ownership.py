"""One owner per run: who watches it, and whether that process still lives (INTERFACE ``watch``)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.clock import Moment
from cockpit.model.wording import utc_minute
from cockpit.store.beats import MISSED, Beats, StoodIn
from cockpit.store.store import Store

FORGOTTEN_AFTER = 3.0
"""Cadences without a sign of life after which an owner counts as gone that never beat."""


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

    @property
    def process(self) -> str:
        """What tells this process from every other, on any host and after any restart."""
        began = self.started_at if self.ticks is None else self.ticks
        return f"{self.host} {self.boot} {self.pid} {began}"


class Owned(Frozen):
    """Who owns a run, since when, and when it last gave a sign of life."""

    owner: Owner
    since: Instant
    heartbeat: Instant
    cadence: Seconds


class Hung(NamedTuple):
    """An owner whose process may be there and does nothing, since its last beat (epoch s)."""

    owner: Owner
    since: float

    @property
    def line(self) -> str:
        """``watch of ada on gpu-box (pid 4211) hung since 2026-03-11 14:03 UTC``."""
        who = f"watch of {self.owner.name} on {self.owner.host} (pid {self.owner.pid})"
        return f"{who} hung since {utc_minute(self.since)}"


class Beaten(NamedTuple):
    """What a process finds as it beats: the runs it still owns, and who stood in for it."""

    runs: frozenset[str]
    stood_in: StoodIn | None


Alive = Callable[[Owner], bool]
"""Is that very process still alive on this host."""


class Ownership:
    """Claims and gives up runs; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store, host: str, alive: Alive) -> None:
        self._store = store
        self._host = host
        self._alive = alive
        self._beats = Beats(store)
        self.hung: tuple[Hung, ...] = ()
        """The owners that were found hung at the last look (``watched``)."""
        self.replaced: dict[str, Hung] = {}
        """The hung owners from whom runs were taken, by process."""

    def owner(self, run: str, now: Moment) -> Owned | None:
        """Return the living owner of a run."""
        return self.watched([run], now).get(run)

    def watched(self, runs: Iterable[str], now: Moment) -> dict[str, Owned]:
        """Return the runs that a living owner watches; one that hangs does not watch.

        How long an owner is silent is seen from call to call: to be asked every few seconds.
        """
        with self._store.reading() as connection:
            known = dict(_rows(connection))
            found = {run: known[run] for run in runs if run in known}
            owners = {each.owner.process: each for each in found.values()}
            states = {name: self._state(connection, each, now) for name, each in owners.items()}
        self.hung = tuple(state for state in states.values() if isinstance(state, Hung))
        return {run: each for run, each in found.items() if states[each.owner.process] is True}

    def claim(
        self, run: str, me: Owner, now: Moment, cadence: float, *, takeover: bool = False
    ) -> Owned | None:
        """Take a run for ``me``; return the living owner that is in the way, or ``None``."""
        with self._store.writing() as connection:
            found = _read(connection, run)
            other = found is not None and found.owner != me
            if found is not None and other and not takeover:
                state = self._state(connection, found, now)
                if state is True:
                    return found
                if isinstance(state, Hung):
                    self.replaced[found.owner.process] = state
            since = found.since if found is not None and not other else now.wall
            _write(
                connection, run, Owned(owner=me, since=since, heartbeat=now.wall, cadence=cadence)
            )
        return None

    def refresh(self, run: str, me: Owner, now: Moment, cadence: float) -> Owned | None:
        """Go on owning a run; return who has taken it over, or ``None`` if it is mine.

        A run that somebody took over and gave up again is taken back.
        """
        with self._store.writing() as connection:
            found = _read(connection, run)
            if found is not None and found.owner != me:
                return found
            since = now.wall if found is None else found.since
            _write(
                connection, run, Owned(owner=me, since=since, heartbeat=now.wall, cadence=cadence)
            )
        return None

    def release(self, run: str, me: Owner) -> None:
        """Give a run up, if it is mine."""
        with self._store.writing() as connection:
            found = _read(connection, run)
            if found is not None and found.owner == me:
                connection.execute("DELETE FROM owners WHERE run = ?", (run,))

    def beat(self, me: Owner, now: Moment, every: float) -> Beaten:
        """Give a sign of life for all runs of ``me``."""
        with self._store.writing() as connection:
            stood_in = self._beats.give(me.process, now, every)
            mine = frozenset(run for run, owned in _rows(connection) if owned.owner == me)
        return Beaten(mine, stood_in)

    def leave(self, me: Owner, now: Moment) -> None:
        """Beat no more."""
        self._beats.end(me.process, now)

    def doubt(self, owned: Owned, now: Moment) -> float:
        """Return for how many seconds to look on until it is certain that an owner hangs.

        Zero for one that has just beaten; by the wall clock, where no other is common.
        """
        with self._store.reading() as connection:
            silence = self._beats.silence(connection, owned.owner.process, now)
        if silence is None:
            return 0.0
        beat, missed = silence
        silent = now.since(beat.at) >= (MISSED - 1) * beat.every
        return (MISSED - missed) * beat.every if silent else 0.0

    def stand_in(self, hung: Hung, who: str, now: Moment) -> None:
        """Write, for a hung owner to find, that ``who`` tells people in its place."""
        self._beats.stand_in(hung.owner.process, who, now)

    def _state(self, connection: sqlite3.Connection, owned: Owned, now: Moment) -> bool | Hung:
        """Return whether the owner is there, or since when it hangs.

        By its process here, and by its beats; one that never beat is of an older version.
        """
        here = owned.owner.host == self._host
        if here and not self._alive(owned.owner):
            return False
        silence = self._beats.silence(connection, owned.owner.process, now)
        if silence is None:
            return here or now.wall - owned.heartbeat <= FORGOTTEN_AFTER * owned.cadence
        beat, missed = silence
        return True if missed < MISSED else Hung(owned.owner, beat.at.wall)


_COLUMNS = "run, owner, host, pid, started_at, since, heartbeat, cadence, ticks, boot"


def _write(connection: sqlite3.Connection, run: str, owned: Owned) -> None:
    me = owned.owner
    connection.execute(
        f"INSERT OR REPLACE INTO owners ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*(run, me.name, me.host, me.pid, me.started_at), owned.since, owned.heartbeat,
         owned.cadence, me.ticks, me.boot),
    )  # fmt: skip


def _read(connection: sqlite3.Connection, run: str) -> Owned | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM owners WHERE run = ?", (run,)).fetchone()
    return None if row is None else _owned(row)


def _rows(connection: sqlite3.Connection) -> Iterable[tuple[str, Owned]]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM owners").fetchall()
    return ((str(row[0]), _owned(row)) for row in rows)


def _owned(row: Sequence[object]) -> Owned:
    fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
    names = ("host", "pid", "started_at", "ticks", "boot")
    owner = {"name": fields["owner"], **{name: fields[name] for name in names}}
    times = {name: fields[name] for name in ("since", "heartbeat", "cadence")}
    return Owned.model_validate({"owner": owner, **times})
