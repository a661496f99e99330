"""Alerts over time: opened, acknowledged by a person, closed, and whether anyone looked."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence

from cockpit.model.alert import Acknowledgement, Alert, ClosedAlert
from cockpit.model.base import Frozen, Instant
from cockpit.store.store import StoreView, pack, unpack

CLOSED_LISTED = 50


class Kept(Frozen):
    """One alert of one run as the store keeps it; ``number`` is 0 until it is stored."""

    number: int = 0
    alert: Alert
    opened_at: Instant
    closed_at: Instant | None = None
    seen: bool = False

    def continues(self, former: Kept) -> bool:
        """Tell whether it was open already when ``former``, a closed one, was closed."""
        same = former.alert.key == self.alert.key
        return same and former.closed_at is not None and former.closed_at >= self.opened_at

    @property
    def passed(self) -> bool:
        """Whether it opened and closed between two observations: only the rows show it."""
        return self.alert.span is not None and self.alert.span.passed

    def replays(self, former: Kept) -> bool:
        """Tell whether the same steps came and went before: a resume has replayed them."""
        mine, others = self.alert.span, former.alert.span
        if self.alert.key != former.alert.key or mine is None or others is None:
            return False
        earlier = (former.closed_at or 0.0) < self.opened_at
        return earlier and _meet(
            mine.opened_step, mine.closed_step, others.opened_step, others.closed_step
        )

    def is_same(self, other: Kept, grace: float) -> bool:
        """Tell whether both tell of one occurrence of one condition.

        By time, ``grace`` (s) apart at most; where the rows tell none, by their steps. So rows
        that are read again, or a log beside a tracker, tell of nothing twice.
        """
        if self.alert.key != other.alert.key:
            return False
        mine, others = self.alert.span, other.alert.span
        untimed = [span for span in (mine, others) if span is not None and span.opened_at is None]
        if untimed and mine is not None and others is not None:
            return _meet(mine.opened_step, mine.closed_step, others.opened_step, others.closed_step)
        begun, begins = self._began_at - grace, other._began_at - grace
        over = [math.inf if at is None else at for at in (self.closed_at, other.closed_at)]
        return begun <= over[1] and begins <= over[0]

    @property
    def _began_at(self) -> float:
        """When it began: no later than it was seen."""
        return min(self.alert.since, self.opened_at)

    @property
    def closed(self) -> ClosedAlert | None:
        """The alert as a closed one, or ``None`` while it is open."""
        if self.closed_at is None:
            return None
        return ClosedAlert(alert=self.alert, closed_at=self.closed_at, seen=self.seen)


class Alerts(StoreView):
    """The alerts of runs, open and closed."""

    def open(self, run: str) -> tuple[Kept, ...]:
        """Return the open alerts of a run, with their newest acknowledgement."""
        with self._store.reading() as connection:
            return _kept(connection, "run = ? AND closed_at IS NULL ORDER BY opened_at", (run,))

    def closed(self, run: str, since: float) -> tuple[Kept, ...]:
        """Return alerts that closed after ``since`` or that nobody has seen, newest first."""
        where = (
            "run = ? AND closed_at IS NOT NULL AND (closed_at >= ? OR seen = 0)"
            f" ORDER BY closed_at DESC LIMIT {CLOSED_LISTED}"
        )
        with self._store.reading() as connection:
            return _kept(connection, where, (run, since))

    def all(self, run: str) -> tuple[Kept, ...]:
        """Return every alert that is kept of a run, oldest first."""
        with self._store.reading() as connection:
            return _kept(connection, "run = ? ORDER BY opened_at, number", (run,))

    def newest(self, run: str, count: int) -> tuple[Kept, ...]:
        """Return the alerts of a run that opened last, newest first."""
        with self._store.reading() as connection:
            where = "run = ? ORDER BY opened_at DESC, number DESC LIMIT ?"
            return _kept(connection, where, (run, count))

    def acknowledgements(self, run: str, count: int) -> tuple[tuple[Alert, Acknowledgement], ...]:
        """Return who has taken which alert, newest first; an alert may be taken several times."""
        rows = self._all(
            "SELECT a.document, t.who, t.at, t.until, t.reason FROM acknowledgements t"
            " JOIN alerts a ON a.number = t.alert WHERE a.run = ? ORDER BY t.at DESC LIMIT ?",
            run, count,
        )  # fmt: skip
        taken = (
            (unpack(Alert, document), Acknowledgement(by=by, at=at, until=until, reason=reason))
            for document, by, at, until, reason in rows
        )
        return tuple((alert, each) for alert, each in taken if alert is not None)

    def save(self, run: str, changed: Sequence[Kept]) -> None:
        """Store alerts that opened, changed, reopened or closed.

        One that another cockpit has opened meanwhile keeps that one's opening time.
        """
        with self._store.writing() as connection:
            for kept in changed:
                _save(connection, run, kept)

    def add_passed(self, run: str, found: Sequence[Kept], grace: float) -> None:
        """Store alerts that opened and closed between two observations, each once.

        What is the same as one that is kept already goes on from that one (``Kept.is_same``).
        """
        with self._store.writing() as connection:
            known: dict[str, list[Kept]] = {}
            for kept in found:
                key = kept.alert.key
                if key not in known:
                    known[key] = list(_kept(connection, "run = ? AND key = ?", (run, key)))
                twin = next((each for each in known[key] if each.is_same(kept, grace)), None)
                if twin is None:
                    _insert(connection, run, kept)
                    known[key].append(kept)
                elif twin.number and (longer := _longer(twin, kept)) is not None:
                    _save(connection, run, longer)
                    known[key][known[key].index(twin)] = longer

    def acknowledge(
        self, run: str, key: str, taken: Acknowledgement, reason: str | None = None
    ) -> bool:
        """Record who has taken an open alert; False if none with this key is open."""
        with self._store.writing() as connection:
            number = _open_number(connection, run, key)
            if not number:
                return False
            connection.execute(
                "INSERT INTO acknowledgements (alert, who, at, until, reason)"
                " VALUES (?, ?, ?, ?, ?)",
                (number, taken.by, taken.at, taken.until, reason),
            )
            connection.execute("UPDATE alerts SET seen = 1 WHERE number = ?", (number,))
            return True

    def mark_seen(self, run: str, keys: Iterable[str]) -> None:
        """Record that a person has looked at these alerts, open or closed."""
        self._change_all(
            "UPDATE alerts SET seen = 1 WHERE run = ? AND key = ? AND seen = 0",
            [(run, key) for key in keys],
        )


def _save(connection: sqlite3.Connection, run: str, kept: Kept) -> None:
    document = pack(kept.alert.model_copy(update={"acknowledged": None}))
    found = _open_number(connection, run, kept.alert.key)
    number = (found or kept.number) if kept.closed_at is None else (kept.number or found)
    number = number or _overlapping(connection, run, kept)
    if number:
        connection.execute(
            "UPDATE alerts SET document = ?, closed_at = ?, seen = max(seen, ?) WHERE number = ?",
            (document, kept.closed_at, kept.seen, number),
        )
        return
    _insert(connection, run, kept)


def _insert(connection: sqlite3.Connection, run: str, kept: Kept) -> None:
    document = pack(kept.alert.model_copy(update={"acknowledged": None}))
    connection.execute(
        "INSERT INTO alerts (run, key, document, opened_at, closed_at, seen)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (run, kept.alert.key, document, kept.opened_at, kept.closed_at, kept.seen),
    )


def _longer(known: Kept, again: Kept) -> Kept | None:
    """Return what came and went, and came again within its grace, as one; ``None``: nothing new."""
    mine, others = known.alert.span, again.alert.span
    if not known.passed or mine is None or others is None or others.opened_at is None:
        return None
    if (again.closed_at or 0.0) <= (known.closed_at or 0.0):
        return None
    ended = {"closed_step": others.closed_step, "closed_at": others.closed_at}
    alert = known.alert.model_copy(update={"span": mine.model_copy(update=ended)})
    return known.model_copy(update={"alert": alert, "closed_at": again.closed_at})


def _meet(first: int | None, last: int | None, other: int | None, others_last: int | None) -> bool:
    """Tell whether two ranges of steps have one in common; one without a step is of none."""
    if first is None or other is None:
        return False
    ends = (math.inf if last is None else last, math.inf if others_last is None else others_last)
    low, high = min(first, ends[0]), max(first, ends[0])
    return low <= max(other, ends[1]) and min(other, ends[1]) <= high


def _open_number(connection: sqlite3.Connection, run: str, key: str) -> int:
    row = connection.execute(
        "SELECT number FROM alerts WHERE run = ? AND key = ? AND closed_at IS NULL", (run, key)
    ).fetchone()
    return 0 if row is None else int(row[0])


def _overlapping(connection: sqlite3.Connection, run: str, kept: Kept) -> int:
    """Return the row of an alert that another cockpit has closed since this one saw it open."""
    row = connection.execute(
        "SELECT number FROM alerts WHERE run = ? AND key = ? AND closed_at >= ?"
        " ORDER BY closed_at DESC LIMIT 1",
        (run, kept.alert.key, kept.opened_at),
    ).fetchone()
    return 0 if row is None else int(row[0])


def _kept(
    connection: sqlite3.Connection, where: str, values: tuple[object, ...]
) -> tuple[Kept, ...]:
    rows = connection.execute(
        f"SELECT number, document, opened_at, closed_at, seen FROM alerts WHERE {where}", values
    ).fetchall()
    found = (_one(connection, *row) for row in rows)
    return tuple(kept for kept in found if kept is not None)


def _one(
    connection: sqlite3.Connection,
    number: int,
    document: str,
    opened_at: float,
    closed_at: float | None,
    seen: int,
) -> Kept | None:
    alert = unpack(Alert, document)
    if alert is None:
        return None
    taken = connection.execute(
        "SELECT who, at, until, reason FROM acknowledgements WHERE alert = ?"
        " ORDER BY at DESC LIMIT 1",
        (number,),
    ).fetchone()
    if taken is not None:
        who = Acknowledgement(by=taken[0], at=taken[1], until=taken[2], reason=taken[3])
        alert = alert.model_copy(update={"acknowledged": who})
    return Kept(
        number=number, alert=alert, opened_at=opened_at, closed_at=closed_at, seen=bool(seen)
    )
