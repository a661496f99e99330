"""One run: its log, its loss, its checkpoints, its sources, its alerts, its logbook."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.worker import Worker

from cockpit.model.report import RunReport
from screens.base import Work, spawn
from screens.bookmarks import RunMarks
from screens.dialog import Prompt
from screens.keys import bindings
from screens.log_reader import LogbookText, read_book
from screens.ports import Cockpit
from screens.run_keys import LABELS, ChartKeys, ChartsTab
from screens.run_layout import Shape, Want, has_room, shape_of, shares, strip_height
from screens.run_log import LogTab
from widgets.alert_list import NONE, AlertList, TimelineView
from widgets.facet_table import CheckpointTable, FacetTable, GoodputPanel
from widgets.fleet_header import KeyLine
from widgets.log_view import LogView
from widgets.logbook_view import LogbookView
from widgets.metric_charts import LossChart, MetricCharts
from widgets.painting.big import HEIGHT
from widgets.run_header import BigFigures, RunHeader
from widgets.scrolled import ReportView, Scrolled

TABS: Final = ("log", "charts", "checkpoints", "facets", "timeline", "logbook")
TITLES: Final = ("log", "charts", "checkpoints", "sources", "timeline", "logbook")
"""The tabs by the names that keys and code know, and as a person reads them."""
PAST_EVERY: Final = 5.0
"""Seconds after which the timeline is asked for again while it is looked at."""
OTHER_ROWS: Final = 5
"""Rows of the head and of the footer, about."""
SIDE: Final = 66
LEAST: Final = {"timeline": 8, "checkpoints": 5}
MOST: Final = {"timeline": 40, "checkpoints": 14, "goodput": 9}
"""Rows of the panels beside the tab, as far as they have something to say."""
ADVISED: Final = ("relaunch", "rollback", "stop", "escalate", "seal")
"""What a next action may begin with that a key plans."""


class RunScreen(ChartKeys):
    """Six tabs; what is wrong, loss and checkpoints stand below or beside them where they can."""

    BRIEF_NEWS = True
    SCOPES = ("run", "log", "charts", "everywhere", "act")
    BINDINGS: ClassVar[list[BindingType]] = bindings("run", "log", "charts", "act")
    DEFAULT_CSS = """
    RunScreen #body { layout: horizontal; height: 1fr; }
    RunScreen #main { width: 1fr; height: 1fr; }
    RunScreen #side { layout: vertical; width: 33%; min-width: 66; margin-left: 1; }
    RunScreen #body.-below { layout: vertical; }
    RunScreen #body.-below #side { layout: horizontal; width: 1fr; min-width: 0; margin-left: 0; }
    RunScreen #body.-below #side > * { height: 1fr; }
    RunScreen #body.-below AlertList { width: 5fr; }
    RunScreen #body.-below #side LossChart { width: 3fr; }
    RunScreen #body.-below #side CheckpointTable { width: 3fr; }
    RunScreen #body.-enlarged #side { width: 50%; }
    RunScreen #body.-enlarged.-below #side { width: 1fr; }
    RunScreen #body.-enlarged.-below #side LossChart { width: 7fr; }
    """

    def __init__(self, cockpit: Cockpit, name: str, tab: str = "log") -> None:
        super().__init__(cockpit)
        self._run = name
        self._tab = tab
        self._reads_book = False
        self._book: LogbookText | None = None
        self._past_asked = float("-inf")
        self.log_view, self.charts, self.small_chart = LogView(), MetricCharts(), LossChart()
        self._timeline, self._logbook = TimelineView(), LogbookView()
        self._views: dict[str, LogView | MetricCharts | ReportView | LogbookView] = {
            "log": self.log_view,
            "charts": self.charts,
            "checkpoints": CheckpointTable(),
            "facets": FacetTable(),
            "timeline": self._timeline,
            "logbook": self._logbook,
        }
        marks = RunMarks(cockpit.bookmarks, cockpit.logs, name)
        spawn_alone = partial(self._spawn, exclusive=True)
        self.log_tab = LogTab(self.log_view, spawn_alone, cockpit.logs, marks)
        spawn_curves = partial(self._spawn, "curves")
        self.charts_tab = ChartsTab(self.charts, spawn_curves, cockpit, name)
        self._side: dict[str, LossChart | ReportView] = {
            "timeline": AlertList(),
            "checkpoints": CheckpointTable(),
            "charts": self.small_chart,
            "goodput": GoodputPanel(),
        }
        for view in self._side.values():
            if isinstance(view, ReportView):
                view.steered = False

    def compose(self) -> ComposeResult:
        """Head, the tab and what stands beside it, footer or search."""
        yield BigFigures()
        yield RunHeader(TITLES)
        with Container(id="body"):
            with Vertical(id="main"):
                yield from self._views.values()
            with Container(id="side"):
                order = ("timeline", "charts", "checkpoints", "goodput")
                yield from (self._side[name] for name in order)
        yield Prompt(LABELS["search"])
        yield KeyLine()

    @property
    def selected(self) -> str | None:
        """Return this run's name."""
        return self._run

    @property
    def report(self) -> RunReport | None:
        """Return the newest report; ``None`` once the run file no longer names it."""
        return self.cockpit.report_of(self._run)

    def on_mount(self) -> None:
        """Begin with the log, or the tab that was asked for."""
        self.cockpit.seen(self._run)
        super().on_mount()

    def show(self) -> None:
        """Show the run as it is known now."""
        if not self.is_mounted:
            return
        report, now = self.report, self.cockpit.now()
        hint = self._hint(report)
        shape = shape_of(*self.app.size)
        self.query_one(RunHeader).show(
            self._run, report, now, TABS.index(self._tab), hint, figures=shape is Shape.ALONE
        )
        enlarged = self.cockpit.presenting and has_room(*self.app.size)
        self.show_figures(enlarged, report)
        for name, view in self._views.items():
            view.display = name == self._tab
        if report is not None:
            self._show_report(report, now, shape is not Shape.ALONE)
        self._lay_out(shape, enlarged)
        self.show_keys()

    def _show_report(self, report: RunReport, now: float, more: bool) -> None:
        shown = [self._views[self._tab], *(self._side.values() if more else ())]
        for view in shown:
            if isinstance(view, ReportView):
                view.show(report, now)
            elif isinstance(view, LossChart):
                view.show(report)
        if self._tab == "log":
            self.log_tab.show(report)
        elif self._tab == "charts":
            self.charts_tab.show(report)
        elif self._tab == "timeline":
            self.log_tab.look_at_marks(report)
            marks = self.log_tab.marks
            self._timeline.show_kept([(mark, marks.why(mark)) for mark in marks.all])
            self._ask_past()
        elif self._tab == "logbook":
            self._read_book(report)

    def _lay_out(self, shape: Shape, enlarged: bool) -> None:
        """Place what stands beside or below the tab; each panel as high as it has something to say.

        What the tab itself shows does not stand there, too. ``enlarged``: the loss gets most.
        """
        side, body = self.query_one("#side"), self.query_one("#body")
        side.display = shape is not Shape.ALONE
        body.set_class(shape is Shape.BELOW, "-below")
        body.set_class(enlarged, "-enlarged")
        size = self.app.size
        names = [name for name in self._side if name != self._tab]
        if shape is Shape.BELOW:
            names.remove("goodput")
            rows = [self._want(name, size.width * 5 // 11).most for name in names]
            rows += [size.height] if enlarged else []
            side.styles.height = strip_height(size.height, rows)
        else:
            side.styles.height = "1fr"
        wants = [self._want(name, SIDE) for name in names]
        filler = names.index("charts") if "charts" in names else 0
        other = OTHER_ROWS + (HEIGHT if enlarged else 0)
        given = shares(size.height - other, wants, filler)
        for name, view in self._side.items():
            height = given[names.index(name)] if name in names else 0
            view.display = height > 0 or (shape is Shape.BELOW and name in names)
            view.styles.height = height if shape is Shape.BESIDE else "1fr"

    def _want(self, name: str, width: int) -> Want:
        """Return how many rows a panel of this width needs, and can use."""
        view = self._side[name]
        if not isinstance(view, ReportView):
            return Want(8, 12)
        rows = len(view.body(width - 4)) + 2
        return Want(rows if name == "goodput" else min(rows, LEAST[name]), min(rows, MOST[name]))

    def _hint(self, report: RunReport | None) -> str:
        """Return the keys that do what is advised and show its evidence."""
        if report is None or report.worst is None:
            return ""
        keys, verb = self.cockpit.keys, report.next_action.split(" ")[0].rstrip(",;:")
        offered = verb in ADVISED and not self.cockpit.actions.reading_only
        act = f"{keys.shown(verb)} {verb} · " if offered else ""
        return f"{act}{keys.shown('jump')} evidence"

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter in this tab."""
        wheres = [self._tab] if self._tab in ("log", "charts") else []
        return self.cockpit.keys.footer(*wheres, "run", "act", "everywhere")

    def _spawn(self, group: str, work: Work, exclusive: bool = False) -> Worker[Any]:
        return spawn(self, work, group=group, exclusive=exclusive)

    def _read_book(self, report: RunReport) -> None:
        path = report.spec.records.logbook
        if path is None:
            self._logbook.show((), "", "not in the run file", at_end=False)
        elif not self._reads_book:
            self._reads_book = True
            spawn(self, partial(self._show_book, path), group="logbook")

    async def _show_book(self, path: str) -> None:
        """Read to the end what was begun, however often there is news meanwhile."""
        try:
            self._book = book = await read_book(path, self._book)
        finally:
            self._reads_book = False
        self._logbook.show(book.lines, path, book.note, at_end=book.newest_last)

    def _ask_past(self) -> None:
        """Read what happened, at most once in a few seconds; it is not asked for twice at once."""
        now = self.cockpit.now()
        if abs(now - self._past_asked) >= PAST_EVERY:
            self._past_asked = now
            spawn(self, self._show_past, group="past")

    async def _show_past(self) -> None:
        try:
            self._timeline.show_past(await self.cockpit.pasts.timeline(self._run))
        except (OSError, TimeoutError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error) or "no answer"
            self._timeline.show_past(None, f"cannot read the past: {said}")

    def go(self, tab: str) -> None:
        """Show a tab."""
        self._tab = tab
        self.show()

    def action_tab(self, name: str) -> None:
        """Show a tab."""
        self.go(name)

    def action_next_tab(self) -> None:
        """Show the tab to the right."""
        self.go(TABS[(TABS.index(self._tab) + 1) % len(TABS)])

    def action_other_run(self, step: int) -> None:
        """Show the next run of the fleet, or the one before."""
        names = [each.name for each in self.cockpit.reports]
        if self._run in names and len(names) > 1:
            name = names[(names.index(self._run) + step) % len(names)]
            self.cockpit.choose(name)
            self.app.switch_screen(RunScreen(self.cockpit, name, self._tab))

    def action_back(self) -> None:
        """Leave the line to type in; stop a save or search that runs; else go back to the fleet."""
        if self.query_one(Prompt).is_open:
            self.close_prompt()
        elif not self.stop_saving() and not self.log_tab.stop():
            self.dismiss(self._run)

    def action_travel(self) -> None:
        """Show the screen as it was: at the happening under the cursor, else at the last change."""
        from screens.past import PastScreen

        at = self._timeline.at_cursor.at if self._tab == "timeline" else None
        self.app.push_screen(PastScreen(self.cockpit, self._run, at))

    def action_only_kind(self) -> None:
        """List one kind of happening alone in the timeline, in turn, or all again."""
        if self._tab == "timeline":
            self._timeline.only_next()
        self.go("timeline")

    def action_jump(self) -> None:
        """Go to the evidence of the alert at the cursor, else of the worst one, then the next."""
        report = self.report
        if report is None:
            return
        here = self._timeline.at_cursor if self._tab == "timeline" else NONE
        self.go("log")
        tab, kept = self.log_tab, here.bookmark
        said = tab.jump(report, here.alert) if kept is None else tab.open_bookmark(kept)
        if said is not None:
            self.cockpit.say(said)

    def action_step(self, steps: int) -> None:
        """Step down, or up."""
        self.log_tab.moved()
        view = self._views[self._tab]
        if isinstance(view, MetricCharts):  # more closely (up), or less so (down)
            self.charts_tab.change(lambda: view.closer(steps < 0))
        elif isinstance(view, LogView | Scrolled):
            view.move(steps)

    def action_turn(self, pages: int) -> None:
        """Turn pages down, or up."""
        self.log_tab.moved()
        view = self._views[self._tab]
        if isinstance(view, MetricCharts):  # half of what is shown
            self.charts_tab.change(lambda: view.pan(pages / 2))
        elif isinstance(view, LogView | Scrolled):
            view.page(pages)

    def action_edge(self, end: bool) -> None:
        """Go to the first line, or the last: of the log, follow it."""
        view = self._views[self._tab]
        if isinstance(view, Scrolled | MetricCharts):
            view.edge(end)
        elif isinstance(view, LogView) and not end:
            self.log_tab.home()
        elif isinstance(view, LogView) and not view.following:
            self.log_tab.follow()

    @on(LogView.Wanted)
    def _wanted(self, event: LogView.Wanted) -> None:
        self.log_tab.wanted(event.offset, event.back)
