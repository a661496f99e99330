"""Telling without the store: an alert must be heard of even when its claim cannot be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit.model.alert import Alert
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.watch.due import Due

PATIENCE: Final = 60.0
"""Seconds for which a store that fails is waited for: most troubles of it pass."""


class Unstored:
    """What this process has told on its own; each alert once per severity and route."""

    def __init__(self, clock: Clock, *, stored: bool) -> None:
        self._clock = clock
        self._stored = stored
        self._failing_since: float | None = None
        self._told: dict[tuple[str, str, str], int] = {}

    @property
    def active(self) -> bool:
        """Whether messages go without a claim: there is no store, or it has failed too long."""
        if not self._stored:
            return True
        since = self._failing_since
        return since is not None and self._clock.monotonic() - since >= PATIENCE

    def failed(self) -> None:
        """Note that the store could not be asked."""
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()

    def worked(self) -> None:
        """Note that the store can be asked again."""
        self._failing_since = None

    def due(self, reports: Mapping[str, RunReport]) -> list[Due]:
        """Return the open alerts that nobody has taken; forget those that are over."""
        if not self.active:
            return []
        open_ = {(each.name, alert.key) for each in reports.values() for alert in each.alerts}
        self._told = {at: rank for at, rank in self._told.items() if at[:2] in open_}
        return [
            Due(each, alert, "open", f"unstored {alert.key} {alert.severity.value}", alert.since)
            for each in reports.values()
            for alert in each.alerts
            if alert.acknowledged is None
        ]

    def told(self, due: Due, route: str) -> None:
        """Remember that an alert was told by a route."""
        self._told[(due.report.name, due.alert.key, route)] = due.alert.severity.rank

    def knows(self, due: Due, route: str) -> bool:
        """Whether its opening was told by this route already without the store."""
        return due.stage == "open" and self._rank(due.report.name, due.alert, route)

    def _rank(self, run: str, alert: Alert, route: str) -> bool:
        return self._told.get((run, alert.key, route), -1) >= alert.severity.rank
