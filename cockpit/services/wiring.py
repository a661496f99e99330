"""Puts the services together that run beside the watch loop."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.actions.core.wiring import build_records
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.notify.channels import Ring
from cockpit.notify.notifier import Notifications
from cockpit.services.follow_up import FollowUp
from cockpit.services.launch_checks import LaunchChecks
from cockpit.services.notifying import Notifying
from cockpit.services.service import BackgroundServices, Service
from cockpit.store.store import Store
from cockpit.watch.engine import Engine

Mine = Callable[[RunReport], bool]
"""Whether this cockpit writes into a run's records."""


def app_services(
    engine: Engine, store: Store | None, clock: Clock, operator: str, ring: Ring
) -> BackgroundServices:
    """Return the services of an open cockpit; a headless watch that owns a run goes first."""
    notifications = Notifications(engine.file, store, clock, ring=ring, operator=operator)
    follow_up = _follow_up(engine, store, clock, lambda report: report.watched_by is None)
    return BackgroundServices((Notifying(engine, notifications, clock), follow_up))


def watch_services(
    engine: Engine,
    store: Store | None,
    clock: Clock,
    ring: Ring | None,
    mine: Mine,
    *more: Service,
) -> BackgroundServices:
    """Return the services of a headless watch; it tells of, and writes for, its own runs."""
    notifications = Notifications(engine.file, store, clock, ring=ring, mine=mine)
    follow_up = _follow_up(engine, store, clock, mine)
    return BackgroundServices((Notifying(engine, notifications, clock), *more, follow_up))


def _follow_up(engine: Engine, store: Store | None, clock: Clock, mine: Mine) -> FollowUp:
    recorder, issues = build_records(lambda: engine.file, store, clock)
    launch_checks = None if store is None else LaunchChecks(store, clock, recorder)
    return FollowUp(engine, launch_checks, recorder, issues, clock, mine)
