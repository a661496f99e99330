"""The fleet: every run, the one that needs a person first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from cockpit.model.report import RunReport, Verdict
from screens.base import ActingScreen, Prompt
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import FleetHeader
from widgets.key_line import KeyLine
from widgets.panel_grid import GridShape, PanelGrid, shape
from widgets.run_list import RunList
from widgets.run_panel import RunClicked

_NEED: Final = (
    Verdict.CRITICAL,
    Verdict.ATTENTION,
    Verdict.UNKNOWN,
    Verdict.FINISHED,
    Verdict.HEALTHY,
    Verdict.SEALED,
)
AROUND = 2
"""Lines that header and footer take."""


def _need(report: RunReport) -> tuple[int, int]:
    worst = max((each.severity.rank for each in report.alerts), default=-1)
    return _NEED.index(report.verdict), -worst


def _time_left(report: RunReport) -> float:
    left = report.progress.eta_s
    return math.inf if left is None or math.isnan(left) else left


SORTS: Final = ("need", "name", "file", "time left")
"""How runs can be sorted; equals keep the run file's order."""


def ordered(reports: Sequence[RunReport], sort: str) -> list[RunReport]:
    """Return the runs in this order."""
    if sort == "name":
        return sorted(reports, key=lambda each: each.name)
    if sort == "time left":
        return sorted(reports, key=_time_left)
    return sorted(reports, key=_need) if sort == "need" else list(reports)


def matching(reports: Sequence[RunReport], words: str) -> list[RunReport]:
    """Return the runs that have every word of a filter in name, state, alerts or kind."""
    wanted = words.casefold().split()
    if not wanted:
        return list(reports)
    return [each for each in reports if all(word in _haystack(each) for word in wanted)]


def _haystack(report: RunReport) -> str:
    job = report.facets.job.value
    spec = report.spec
    parts = [report.name, report.verdict.value, spec.group or "", spec.dri or "", spec.tier]
    parts += [job.phase.value] if job is not None else []
    parts += [spec.job.kind] if spec.job is not None else []
    parts += [f"{alert.id} {alert.title}" for alert in report.alerts]
    return " ".join(parts).casefold()


class FleetScreen(ActingScreen):
    """Panels where all fit, else a list; what is selected is a run that stands there, always.

    It follows the run, not the place; where the run leaves the view its neighbour takes over.
    """

    SCOPES = ("fleet", "act", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("fleet", "act")

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._chosen: str | None = None
        self._before_filter: str | None = None
        self._order: list[str] = []
        self._place = 0
        self._in_sight = False
        self._touched = False
        self._filter = ""
        self._sort = SORTS[0]
        self._shape: GridShape | None = None
        self._about: tuple[Sequence[RunReport], str, str] = ((), "", "")
        self._shown: list[RunReport] = []

    def compose(self) -> ComposeResult:
        """Header, panels or list, footer or filter."""
        yield FleetHeader()
        count = len(self.cockpit.reports)
        yield PanelGrid(count if self._shape_for(count) else 0)
        yield RunList()
        yield Prompt("filter: words in name, state, alert; enter keeps it, esc drops it")
        yield KeyLine()

    @property
    def shown(self) -> list[RunReport]:
        """The runs as they stand on the screen, in order; a key alone sorts nothing anew."""
        about = (self.cockpit.reports, self._filter, self._sort)
        if about != self._about:
            self._about = about
            self._shown = ordered(matching(about[0], self._filter), self._sort)
        return self._shown

    @property
    def selected(self) -> str | None:
        """The selected run; none while no run is in sight."""
        return self._chosen if self._in_sight else None

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The runs in sight: all of them as panels, else what the list has room for."""
        if self._shape is not None:
            return tuple(each.name for each in self.shown)
        return self.query_one(RunList).runs_in_view if self.is_mounted else ()

    def show(self) -> None:
        """Show all runs as they are known now."""
        if not self.is_mounted:
            return
        shown = self.shown
        self._select(shown)
        self._in_sight = bool(shown)
        self._shape = self._shape_for(len(shown))
        grid, listed = self.query_one(PanelGrid), self.query_one(RunList)
        grid.display, listed.display = self._shape is not None, self._shape is None
        if self._shape is not None:
            grid.show(shown, self.cockpit.now(), self._place, self._shape)
        else:
            listed.show(shown, self.cockpit.now(), self._place, self._nothing())
        sort = "" if self._sort == SORTS[0] else self._sort
        watch = self.cockpit.watch_state._replace(filter=self._filter, sort=sort)
        news = self.cockpit.actions.news
        self.query_one(FleetHeader).show(self.cockpit.reports, watch, len(shown), news)
        self.show_keys()

    @property
    def _height(self) -> int:
        """The lines that the runs have."""
        return self.app.size.height - AROUND - len(self.cockpit.actions.news)

    def _shape_for(self, count: int) -> GridShape | None:
        return shape(count, self.app.size.width - 2, self._height)

    def _nothing(self) -> tuple[str, str]:
        """Return why there is no run to be seen, and what to do about it."""
        count = len(self.cockpit.reports)
        if not count:
            return "the run file names no run", "add a [[run]] to it: it is read again by itself"
        clear = self.cockpit.keys.shown("clear")
        runs = "the run" if count == 1 else f"all {count} runs"
        return f'no run has "{self._filter}" in its name, state or alerts', f"{clear} shows {runs}"

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        return self.cockpit.keys.footer("fleet", "act", "everywhere")

    def _select(self, shown: list[RunReport]) -> None:
        """Find the selected run's new place; if it is gone, its nearest neighbour's.

        Until a person has pressed a key it is the first one: the run that needs them most.
        """
        names = [each.name for each in shown]
        if not self._touched or not names:
            self._chosen = names[0] if names else self._chosen if self._touched else None
        elif self._chosen not in names:
            self._chosen = self._neighbour(names)
        self._place = names.index(self._chosen) if self._chosen in names else 0
        self._order = names or self._order

    def _neighbour(self, names: list[str]) -> str:
        """Return the run nearest to where the selected one stood that is still in sight."""
        if self._chosen not in self._order:
            return names[0]
        here = self._order.index(self._chosen)
        near = [*self._order[here + 1 :], *reversed(self._order[:here])]
        return next((each for each in near if each in names), names[0])

    def choose(self, name: str) -> None:
        """Select a run: a person has turned to it, here or on its own screen."""
        self._touched = True
        self._chosen = name
        self._before_filter = None
        self.show()

    def _move(self, steps: int) -> None:
        shown = self.shown
        self._select(shown)
        if shown:
            place = max(0, min(self._place + steps, len(shown) - 1))
            self.choose(shown[place].name)

    @property
    def _columns(self) -> int:
        return 1 if self._shape is None else self._shape.columns

    def action_row(self, rows: int) -> None:
        """Select the run that many rows below, if there is one."""
        shown = self.shown
        self._select(shown)
        if 0 <= self._place + rows * self._columns < len(shown):
            self._move(rows * self._columns)

    def action_step(self, steps: int) -> None:
        """Select the next run, or the one before."""
        self._move(steps)

    def action_turn(self, pages: int) -> None:
        """Select a page further down, or up."""
        page = self.query_one(RunList).page
        if self._shape is not None:
            page = self._columns * max(1, self._height // self._shape.height)
        self._move(pages * page)

    def action_edge(self, end: bool) -> None:
        """Select the first or the last run."""
        self._move(len(self.shown) if end else -len(self.shown))

    def action_open(self) -> None:
        """Open the selected run."""
        if self.selected is not None:
            self._touched = True
            self.cockpit.open_run(self.selected)

    def action_sort(self) -> None:
        """Sort in the next way."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self.cockpit.say(f"sorted by {self._sort}")
        self.show()

    def action_filter(self) -> None:
        """Ask for filter words."""
        if not self._filter:
            self._before_filter = self._chosen
        self.query_one(KeyLine).display = False
        self.query_one(Prompt).ask(self._filter)

    def action_clear(self) -> None:
        """Show all runs again, and select the one from before if nothing was done since."""
        if not self._filter:
            self.cockpit.actions.seen()
        self._filter = ""
        self._chosen, self._before_filter = self._before_filter or self._chosen, None
        self._close_prompt()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self.query_one(Prompt).is_open:
            self._filter = event.value
            self.show()

    @on(Input.Submitted)
    def _close_prompt(self) -> None:
        self.query_one(Prompt).close()
        self.query_one(KeyLine).display = True
        self.show()

    @on(RunClicked)
    def _clicked(self, event: RunClicked) -> None:
        if event.name == self.selected:
            self.action_open()
        else:
            self.choose(event.name)

    async def on_key(self, event: events.Key) -> None:
        """Hold the selected run from the first key on: whatever it does is meant for that run.

        The cursor keys leave the filter, as one expects of a list.
        """
        self._touched = True
        if self.query_one(Prompt).is_open:
            if event.key in ("down", "up"):
                self._close_prompt()
        elif event.key not in self.cockpit.keys.of("clear"):
            self._before_filter = None
