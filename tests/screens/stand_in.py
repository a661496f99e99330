"""An engine that knows what a test tells it, and an app on it with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from cockpit.app.application import CockpitApp
from cockpit.model.report import FleetReport, RunReport
from cockpit.model.run import CockpitFile
from cockpit.watch.engine import Engine
from tests.widgets import reports as made

ScreenT = TypeVar("ScreenT", bound=Screen[Any])
WidgetT = TypeVar("WidgetT", bound=Widget)

SIZES = [(80, 24), (120, 40), (200, 50)]


class StillClock:
    def __init__(self) -> None:
        self.at = made.NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class StandIn:
    """Stands in for ``cockpit.watch.engine.Engine``."""

    def __init__(self, *runs: RunReport) -> None:
        self.runs = list(runs)
        self.notices: Sequence[str] = ()
        self.poked: list[str] = []
        self.seen: list[str] = []
        self.preferred: tuple[str, ...] = ()
        self.fault: Exception | None = None
        self.cancelled = False
        self._told: list[Callable[[RunReport], None]] = []

    def report(self) -> FleetReport:
        return FleetReport(checked_at=made.NOW, runs=tuple(self.runs))

    def subscribe(self, callback: Callable[[RunReport], None]) -> Callable[[], None]:
        self._told.append(callback)
        return lambda: self._told.remove(callback)

    async def run(self) -> None:
        if self.fault is not None:
            raise self.fault
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True

    async def poke(self, name: str, facet: str | None = None) -> None:
        self.poked.append(name)

    def prefer(self, visible: Sequence[str]) -> None:
        self.preferred = tuple(visible)

    async def looked_at(self, name: str) -> None:
        self.seen.append(name)

    def tell(self, report: RunReport) -> None:
        """Change a run, as the live engine does."""
        names = [each.name for each in self.runs]
        self.runs[names.index(report.name)] = report
        for callback in self._told:
            callback(report)


def cockpit(*runs: RunReport, **options: Any) -> CockpitApp:
    keys = options.pop("keys", {})
    engine = options.pop("engine", None) or StandIn(*(runs or made.fleet()))
    file = CockpitFile(
        path="/data/cockpit.toml",
        operator=options.pop("operator", "ada"),
        runs=tuple(each.spec for each in engine.runs),
        keys=keys,
    )
    service = options.pop("service", None)
    maker = None if service is None else lambda operator: service
    books = options.pop("books", None)
    write = None if books is None else lambda: books
    return CockpitApp(
        file, cast(Engine, engine), clock=StillClock(), service=maker, books=write, **options
    )


def text_of(app: App[Any]) -> str:
    """Return what stands on the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def app_of(pilot: Pilot[Any]) -> CockpitApp:
    """Return the app that the pilot drives."""
    assert isinstance(pilot.app, CockpitApp)
    return pilot.app


def screen_of(app: App[Any], kind: type[ScreenT]) -> ScreenT:
    """Return the screen that is on top, which must be of this kind."""
    screen = app.screen
    assert isinstance(screen, kind)
    return screen


def focus_of(app: App[Any], kind: type[WidgetT]) -> WidgetT:
    """Return the widget that has the focus, which must be of this kind."""
    widget = app.focused
    assert isinstance(widget, kind)
    return widget
