"""Alerts over time: opened, acknowledged by a person, closed, and whether anyone looked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

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
        return self._kept("run = ? AND closed_at IS NULL ORDER BY opened_at", run)

    def closed(self, run: str, since: float) -> tuple[Kept, ...]:
        """Return alerts that closed after ``since`` or that nobody has seen, newest first."""
        where = (
            "run = ? AND closed_at IS NOT NULL AND (closed_at >= ? OR seen = 0)"
            f" ORDER BY closed_at DESC LIMIT {CLOSED_LISTED}"
        )
        return self._kept(where, run, since)

    def all(self, run: str) -> tuple[Kept, ...]:
        """Return every alert that is kept of a run, oldest first."""
        return self._kept("run = ? ORDER BY opened_at, number", run)

    def newest(self, run: str, count: int) -> tuple[Kept, ...]:
        """Return the alerts of a run that opened last, newest first."""
        return self._kept("run = ? ORDER BY opened_at DESC, number DESC LIMIT ?", run, count)

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
        with self._store.writing():
            for kept in changed:
                self._save(run, kept)

    def add_passed(self, run: str, found: Sequence[Kept], grace: float) -> None:
        """Store alerts that opened and closed between two observations, each once.

        What is the same as one that is kept already goes on from that one (``Kept.is_same``).
        """
        with self._store.writing():
            known: dict[str, list[Kept]] = {}
            for kept in found:
                key = kept.alert.key
                if key not in known:
                    known[key] = list(self._kept("run = ? AND key = ?", run, key))
                twin = next((each for each in known[key] if each.is_same(kept, grace)), None)
                if twin is None:
                    self._add(run, kept)
                    known[key].append(kept)
                elif twin.number and (longer := _longer(twin, kept)) is not None:
                    self._save(run, longer)
                    known[key][known[key].index(twin)] = longer

    def acknowledge(
        self, run: str, key: str, taken: Acknowledgement, reason: str | None = None
    ) -> bool:
        """Record who has taken an open alert; False if none with this key is open."""
        with self._store.writing():
            number = self._open_number(run, key)
            if not number:
                return False
            self._insert(
                "INTO acknowledgements", alert=number, who=taken.by, at=taken.at,
                until=taken.until, reason=reason,
            )  # fmt: skip
            self._change("UPDATE alerts SET seen = 1 WHERE number = ?", number)
            return True

    def mark_seen(self, run: str, keys: Iterable[str]) -> None:
        """Record that a person has looked at these alerts, open or closed."""
        self._change_all(
            "UPDATE alerts SET seen = 1 WHERE run = ? AND key = ? AND seen = 0",
            [(run, key) for key in keys],
        )

    def _save(self, run: str, kept: Kept) -> None:
        found = self._open_number(run, kept.alert.key)
        number = (found or kept.number) if kept.closed_at is None else (kept.number or found)
        # else another cockpit may have closed it since this one saw it open
        number = number or self._number(
            "run = ? AND key = ? AND closed_at >= ? ORDER BY closed_at DESC",
            run, kept.alert.key, kept.opened_at,
        )  # fmt: skip
        if not number:
            self._add(run, kept)
            return
        query = "UPDATE alerts SET document = ?, closed_at = ?, seen = max(seen, ?)"
        changed = _document(kept.alert), kept.closed_at, kept.seen
        self._change(f"{query} WHERE number = ?", *changed, number)

    def _add(self, run: str, kept: Kept) -> None:
        self._insert(
            "INTO alerts", run=run, key=kept.alert.key, document=_document(kept.alert),
            opened_at=kept.opened_at, closed_at=kept.closed_at, seen=kept.seen,
        )  # fmt: skip

    def _open_number(self, run: str, key: str) -> int:
        return self._number("run = ? AND key = ? AND closed_at IS NULL", run, key)

    def _number(self, where: str, *values: object) -> int:
        """Return the number of the first row, 0 if there is none."""
        row = self._first(f"SELECT number FROM alerts WHERE {where} LIMIT 1", *values)
        return 0 if row is None else int(row[0])

    def _kept(self, where: str, *values: object) -> tuple[Kept, ...]:
        query = "SELECT number, document, opened_at, closed_at, seen FROM alerts WHERE"
        with self._store.reading():
            found = self._values(self._one, f"{query} {where}", *values)
        return tuple(kept for kept in found if kept is not None)

    def _one(self, number: int, document: str, **times: Any) -> Kept | None:  # noqa: ANN401
        alert = unpack(Alert, document)
        if alert is None:
            return None
        query = "SELECT who AS 'by', at, until, reason FROM acknowledgements WHERE alert = ?"
        taken = self._values(Acknowledgement, f"{query} ORDER BY at DESC LIMIT 1", number)
        if taken:
            alert = alert.model_copy(update={"acknowledged": taken[0]})
        return Kept(number=number, alert=alert, **times)


def _document(alert: Alert) -> str:
    return pack(alert.model_copy(update={"acknowledged": None}))


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
