"""Alerts over time: what the rules say now against what is open already (SPEC C, A-14).

An alert has one identity (its key): it opens once, keeps its time and its acknowledgement
while it lasts, and closes. One that comes back within a cadence of closing is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cockpit.model.alert import Acknowledgement, Alert
from cockpit.model.base import Frozen
from cockpit.store.alerts import Kept


class Reconciled(Frozen):
    """The open alerts in the rules' order, the ones that just closed, and what to store."""

    open: tuple[Kept, ...]
    closed: tuple[Kept, ...]
    changed: tuple[Kept, ...]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The open alerts as a report lists them."""
        return tuple(kept.alert for kept in self.open)


def reconcile(
    known: Mapping[str, Kept],
    lately: Sequence[Kept],
    judged: Sequence[Alert],
    now: float,
    *,
    grace: float,
    may_close: bool,
) -> Reconciled:
    """Merge the rules' verdict with the ``known`` open alerts (by key) and ``lately`` closed ones.

    ``grace`` is the time (s) in which a closed alert that returns is reopened rather than new.
    Without ``may_close`` (something has not been looked at yet) nothing closes.
    """
    back = {kept.alert.key: kept for kept in lately if now - (kept.closed_at or 0.0) <= grace}
    fresh = {alert.key: _merge(known, back, alert, now) for alert in judged}
    gone = [kept for key, kept in known.items() if key not in fresh]
    if not may_close:
        fresh.update({kept.alert.key: kept for kept in gone})
        gone = []
    closed = [kept.model_copy(update={"closed_at": now}) for kept in gone]
    changed = [kept for key, kept in fresh.items() if kept != known.get(key)]
    return Reconciled(open=tuple(fresh.values()), closed=tuple(closed), changed=(*changed, *closed))


def current(taken: Acknowledgement | None, now: float) -> Acknowledgement | None:
    """Return an acknowledgement unless its time is over."""
    over = taken is not None and taken.until is not None and taken.until <= now
    return None if over else taken


def _merge(known: Mapping[str, Kept], back: Mapping[str, Kept], alert: Alert, now: float) -> Kept:
    former = known.get(alert.key) or back.get(alert.key)
    if former is None:
        return Kept(alert=alert.model_copy(update={"acknowledged": None}), opened_at=now)
    worse = alert.severity.rank > former.alert.severity.rank
    taken = None if worse else current(former.alert.acknowledged, now)
    # A first look may have read only the newest rows; the whole history can show it began earlier.
    since = min(former.alert.since, alert.since)
    kept = alert.model_copy(update={"since": since, "acknowledged": taken})
    return former.model_copy(update={"alert": kept, "closed_at": None})
