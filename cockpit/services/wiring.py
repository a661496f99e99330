"""Puts the services together that run beside the watch loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cockpit.actions.core.wiring import build_records
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.notify.notifier import Notifications
from cockpit.notify.routes import Ring
from cockpit.runtime.account import login_name
from cockpit.services.answers import AnswerService
from cockpit.services.follow_up import FollowUp, LaunchLookUps, StandingService
from cockpit.services.notifying import Notifying, StandingIn
from cockpit.services.service import BackgroundServices, Service
from cockpit.store.store import Store
from cockpit.watch.engine import Engine

Mine = Callable[[RunReport], bool]
"""Whether this cockpit writes into a run's records."""


def app_services(
    engine: Engine,
    store: Store | None,
    clock: Clock,
    operator: str,
    ring: Ring,
    began: float | None = None,
) -> BackgroundServices:
    """Return the services of an open cockpit; a headless watch that owns a run goes first.

    ``began`` is when the engine did (epoch s): what it has seen since then is told, however late
    the services are.
    """
    notifications = Notifications(engine.file, store, clock, ring=ring, operator=operator)
    notifications.began = notifications.began if began is None else began
    standing_in = StandingIn(engine, operator, clock)

    def mine(report: RunReport) -> bool:
        return report.watched_by is None

    return _services(engine, store, clock, notifications, (standing_in,), mine, operator)


def watch_services(
    engine: Engine,
    store: Store | None,
    clock: Clock,
    ring: Ring | None,
    mine: Mine,
    *more: Service,
    began: float | None = None,
) -> BackgroundServices:
    """Return the services of a headless watch; it tells of, and writes for, its own runs."""
    notifications = Notifications(engine.file, store, clock, ring=ring, mine=mine)
    notifications.began = notifications.began if began is None else began
    return _services(engine, store, clock, notifications, more, mine, login_name())


def _services(
    engine: Engine,
    store: Store | None,
    clock: Clock,
    notifications: Notifications,
    more: Sequence[Service],
    mine: Mine,
    operator: str,
) -> BackgroundServices:
    records = build_records(lambda: engine.file, store, clock)
    notifying = Notifying(engine, notifications, clock)
    look_ups = LaunchLookUps(engine, store, clock, mine, operator)
    follow_up = FollowUp(engine, store, clock, mine, records)
    orders: list[Service] = []
    if store is not None:
        orders.append(StandingService(engine, store, clock, mine))
        orders.append(AnswerService(engine, store, clock, mine, records[1]))
    return BackgroundServices((notifying, *more, look_ups, follow_up, *orders))
