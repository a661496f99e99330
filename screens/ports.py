"""What the screens want of the engine and of the app around them; no more is assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cockpit.model.report import FleetReport, RunReport
from screens.keys import Keys
from widgets.fleet_header import Watch


class WatchEngine(Protocol):
    """The engine, as the screens see it."""

    def report(self) -> FleetReport:
        """Return what is known now, at once."""

    def subscribe(self, callback: Callable[[RunReport], None]) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""

    async def run(self) -> None:
        """Watch until cancelled."""

    async def poke(self, name: str, facet: str | None = None) -> None:
        """Ask for a facet of a run, or for all of them, now."""

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know about the cockpit itself, one line each."""


class Cockpit(Protocol):
    """The app around the screens: what it knows and what it can be asked for."""

    @property
    def keys(self) -> Keys:
        """The keys in use."""

    @property
    def reports(self) -> Sequence[RunReport]:
        """Every run's newest report, in the run file's order."""

    @property
    def watch_state(self) -> Watch:
        """Who sits here, and whether this cockpit is watching."""

    @property
    def notice(self) -> str:
        """The newest thing to tell, until a key is pressed."""

    def now(self) -> float:
        """Return seconds since the epoch."""

    def say(self, words: str) -> None:
        """Show one line until the next key."""

    def look_again(self, name: str) -> None:
        """Ask every source of a run again."""

    def seen(self, name: str) -> None:
        """Record that a person looks at a run's alerts."""

    def open_run(self, name: str) -> None:
        """Show a run's own screen."""
