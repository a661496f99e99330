"""What the app asks of an engine; the one that a window is attached to lives elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from cockpit.model.report import FleetReport, RunReport
from screens.ports import CurvesPort, Logs, PastsPort


class Watching(Protocol):
    """Reports of all runs, as they come; nothing here waits for an answer."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know about the cockpit itself, one line each."""

    @property
    def silent(self) -> str:
        """Why nothing of what is shown is news, if so: nobody watches."""

    @property
    def recalled(self) -> asyncio.Event:
        """Set once what was seen of the runs the last time is told."""

    @property
    def logs(self) -> Logs:
        """The logs of the runs, in pages."""

    @property
    def curves(self) -> CurvesPort:
        """Any metric of the runs, as it was logged."""

    @property
    def pasts(self) -> PastsPort:
        """What happened to the runs, and how they were."""

    def report(self) -> FleetReport:
        """Return what is known now, at once."""

    def subscribe(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""

    def on_ring(self, callback: Callable[[str], object]) -> None:
        """Call back when somebody is to be told by this terminal's bell."""

    def prefer(self, visible: Sequence[str]) -> None:
        """Say which runs a person sees: they are read first."""

    async def run(self) -> None:
        """Watch until cancelled."""

    async def poke(self, name: str) -> None:
        """Ask for all facets of a run, now."""

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts, so that none closes unseen."""
