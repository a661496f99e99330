"""An engine that knows what a test tells it, and an app on it with a clock that stands still."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from cockpit.app.application import CockpitApp
from cockpit.attach.server import LogReading
from cockpit.model.curve import Curve, Curves, Span
from cockpit.model.described import Description
from cockpit.model.history import Backtested, Happening, Kind, Moment, PastLog, Sign, Then, Timeline
from cockpit.model.report import FleetReport, RunReport, Verdict
from cockpit.model.run import CockpitFile
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.pieces import LocalLog
from screens.acting.guarded import Means
from screens.ports import Logs
from tests.widgets import reports as made

ScreenT = TypeVar("ScreenT", bound=Screen[Any])
WidgetT = TypeVar("WidgetT", bound=Widget)

LONG = bool(os.environ.get("SOAK"))
SIZES = [(80, 24), *([(120, 40)] if LONG else []), (200, 50)]
"""The laptop and the wall screen; between them in the long run."""


class StillClock:
    def __init__(self) -> None:
        self.at = made.NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class StandInCurves:
    """Metrics that a test has told, by name; of any other nothing is known."""

    def __init__(self) -> None:
        self.known: dict[str, Curve] = {}
        self.asked: list[tuple[tuple[str, ...], Span]] = []

    async def curves(self, run: str, metrics: Sequence[str], span: Span) -> Curves:
        self.asked.append((tuple(metrics), span))
        found = (self.known.get(each, Curve(each, why="nobody has told")) for each in metrics)
        return Curves(tuple(self.known), tuple(found))


class StandInPasts:
    """The past that a test has told: moments by their time, and one timeline."""

    def __init__(self) -> None:
        self.known: dict[float, Then] = {}
        self.found = Timeline(run="")
        self.fault: Exception | None = None
        self.asked: list[float] = []

    def tell(self, report: RunReport) -> None:
        """Tell of a run that was well an hour ago, then was as ``report``; and why."""
        begin = made.NOW - 3600.0
        well = report.model_copy(
            update={"checked_at": begin, "alerts": (), "verdict": Verdict.HEALTHY}
        )
        for at, was in ((begin, well), (begin + 1800.0, report)):
            self.known[at] = Then(run=report.name, at=at, report=was, recorded_at=at, watched=True)
        told = (
            (begin + 1800.0, Kind.ALERT, Sign.CRITICAL, "Killed by signal 9", "C-01"),
            (begin + 60.0, Kind.CHECKPOINT, Sign.GOOD, "Checkpoint 400 saved", ""),
            (begin - 60.0, Kind.JOB, Sign.PLAIN, "Launched r-i002: job 8", ""),
        )
        self.found = Timeline(
            run=report.name,
            happenings=tuple(
                Happening(at=at, kind=kind, sign=sign, text=words, code=code, key=code)
                for at, kind, sign, words, code in told
            ),
            moments=tuple(
                Moment(at, each.report.verdict, True)
                for at, each in self.known.items()
                if each.report is not None
            ),
            begins=begin,
        )

    async def timeline(self, run: str) -> Timeline:
        if self.fault is not None:
            raise self.fault
        return self.found.model_copy(update={"run": run})

    async def then(self, run: str, at: float) -> Then:
        self.asked.append(at)
        if self.fault is not None:
            raise self.fault
        before = [each for each in self.known if each <= at]
        if not before:
            return Then(run=run, at=at, lacks=("nothing is kept of it from before",))
        return self.known[max(before)].model_copy(update={"at": at})

    async def log_then(self, run: str, at: float, offset: int, back: bool) -> PastLog:
        found = (await self.then(run, at)).report
        log = None if found is None else found.facets.log.value
        if log is None:
            raise OSError(0, "no log is known")
        page = LogFile(LocalLog(log.path)).page(min(offset, log.size), 600, back)
        return PastLog(page._replace(size=log.size), "read from the file")


class StandIn:
    """Stands in for the engine that a window is attached to."""

    def __init__(self, *runs: RunReport) -> None:
        self.runs = list(runs)
        self.notices: Sequence[str] = ()
        self.silent = ""
        self.recalled = asyncio.Event()
        self.recalled.set()
        self.poked: list[str] = []
        self.seen: list[str] = []
        self.preferred: tuple[str, ...] = ()
        self.fault: Exception | None = None
        self.cancelled = False
        self.rings: list[Callable[[str], object]] = []
        self.curves = StandInCurves()
        self.pasts = StandInPasts()
        self.logs: Logs = LogReading(self._report_of)
        self._told: list[Callable[[RunReport], object]] = []

    def _report_of(self, name: str) -> RunReport | None:
        return next((each for each in self.runs if each.name == name), None)

    def on_ring(self, callback: Callable[[str], object]) -> None:
        self.rings.append(callback)

    def report(self) -> FleetReport:
        return FleetReport(checked_at=made.NOW, runs=tuple(self.runs))

    def subscribe(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
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


class StandInApp(CockpitApp):
    """The app, with nothing to replay outside of it; ``past`` is what a backtest finds."""

    past: Backtested | OSError = Backtested(run="r", steps=0)

    async def describe(self, run: str) -> Description:
        text = "tasks:\n  JobState=RUNNING Partition=gpu"
        return Description(run=run, job="41", system="slurm here", at=self.now(), text=text)

    async def replay(self, run: str) -> Backtested:
        if isinstance(self.past, OSError):
            raise self.past
        return self.past


def cockpit(*runs: RunReport, **options: Any) -> CockpitApp:
    keys = options.pop("keys", {})
    engine = options.pop("engine", None) or StandIn(*(runs or made.fleet()))
    file = CockpitFile(
        path="/data/cockpit.toml",
        operator=options.pop("operator", "ada"),
        runs=tuple(each.spec for each in engine.runs),
        keys=keys,
    )
    means = {name: options.pop(name) for name in ("version", "plans") if name in options}
    service = options.pop("service", None)
    maker = None if service is None else lambda operator: service
    books = options.pop("books", None)
    write = None if books is None else lambda: books
    return StandInApp(
        file,
        engine,
        clock=StillClock(),
        means=Means(service=maker, books=write, **means),
        **options,
    )


def text_of(app: App[Any]) -> str:
    """Return what stands on the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def typed(pilot: Pilot[Any], words: str) -> None:
    """Type words as fast as a terminal reads them; ``press`` would wait for rest after each key."""
    for letter in words:
        name = {" ": "space", "-": "minus"}.get(letter, letter)
        pilot.app.post_message(events.Key(name, letter))
    await pilot.pause()


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
