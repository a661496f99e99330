"""The charts tab: what it shows, asks of the engine, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.widgets import Input
from textual.worker import Worker

from cockpit.model.curve import USUAL
from cockpit.model.report import RunReport
from screens.base import Work
from screens.dialog import Prompt
from screens.log_keys import LogKeys
from screens.ports import Cockpit
from widgets.metric_charts import MetricCharts

if TYPE_CHECKING:
    from widgets.metric_charts import LossChart


PROMPT: Final = "one or two metrics by a few letters: loss, grad   enter show · esc cancel"
OFFERED: Final = 12


class ChartsTab:
    """Steers the charts of one run: keys in, questions out."""

    def __init__(
        self, view: MetricCharts, spawn: Callable[[Work], Worker[Any]], cockpit: Cockpit, run: str
    ) -> None:
        self._view = view
        self._spawn = spawn
        self._cockpit = cockpit
        self._run = run
        self._report: RunReport | None = None
        self._reads = False
        self._stands: object = None
        self.choosing = False
        """True while a name of a metric is typed."""

    def show(self, report: RunReport) -> None:
        """Show a run as it is known now, and ask for what was logged since."""
        self._report = report
        self._view.show(report, self._cockpit.now())
        self.ask()

    def ask(self) -> None:
        """Ask for what is shown, unless that is known already."""
        if not self._reads and self._standing() != self._stands:
            self._reads = True
            self._spawn(self._read)

    def _standing(self) -> object:
        """Return what an answer depends on: what is shown, and how far the run is."""
        tracker = None if self._report is None else self._report.facets.tracker.value
        far = None if tracker is None else (tracker.step, tracker.last_step_at, tracker.file_mtime)
        return self._view.metrics, self._view.span, far

    async def _read(self) -> None:
        """Ask until all is read: each answer brings a turn's worth of the record."""
        far = -1.0
        try:
            while self._view.display:
                stands, metrics = self._standing(), self._view.metrics
                try:
                    answer = await self._cockpit.curves.curves(self._run, metrics, self._view.span)
                except (OSError, ValueError) as error:
                    self._cockpit.say(f"metrics cannot be read now: {error}")
                    self._stands = stands
                    return
                self._view.take(answer.names, metrics, answer.curves)
                read = sum(each.share for each in answer.curves)
                same = stands == self._standing()
                if same and (read >= len(metrics) or read <= far):
                    self._stands = stands if read >= len(metrics) else None
                    return
                far = read if same else -1.0
        finally:
            self._reads = False

    def change(self, change: Callable[[], None]) -> None:
        """Do what changes the look, and ask for what is shown then."""
        change()
        self.ask()

    def turn(self, metrics: tuple[str, ...]) -> None:
        """Show these metrics."""
        self.change(lambda: self._view.turn(self._view.look._replace(metrics=metrics)))

    def typed(self, words: str) -> None:
        """Show what is meant by what is typed so far."""
        if self.choosing:
            last = words.rpartition(",")[2]
            self._view.offer(metrics_like(last, self._names())[:OFFERED])

    def choose(self, words: str) -> None:
        """Show the metrics that are meant; say which name nothing has."""
        self.leave()
        wanted = [each.strip() for each in words.split(",") if each.strip()][:2]
        meant = [(each, metrics_like(each, self._names())) for each in wanted]
        unknown = [each for each, names in meant if not names]
        if unknown:
            self._cockpit.say(f"no metric has a name like {unknown[0]}")
        chosen = tuple(dict.fromkeys(names[0] for _, names in meant if names))
        if chosen:
            self.turn(chosen)

    def leave(self) -> None:
        """End the choice of a name."""
        self.choosing = False
        self._view.offer(None)

    def _names(self) -> Sequence[str]:
        return tuple(dict.fromkeys((*USUAL, *self._view.names)))


def metrics_like(typed: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that hold these letters in their order, what fits best first."""
    wanted = "".join(typed.lower().split())
    ranked = [(_rank(wanted, each.lower().replace(" ", "")), each) for each in names]
    fitting = [(rank, len(each), each) for rank, each in ranked if rank is not None]
    return tuple(each for _, _, each in sorted(fitting))


def _rank(wanted: str, name: str) -> int | None:
    """Return 0 for the name itself, more for what fits less; ``None`` where it does not."""
    letters = iter(name)
    in_order = all(each in letters for each in wanted)
    begins = name.startswith(wanted) or f"/{wanted}" in name
    fits = (name == wanted, begins, wanted in name, in_order)
    return fits.index(True) if any(fits) else None


class ChartKeys(LogKeys):
    """A screen with a charts tab: ``charts``, and ``charts_tab`` between them and the engine.

    ``small_chart`` stands beside the other tabs.
    """

    charts: MetricCharts
    charts_tab: ChartsTab
    small_chart: LossChart

    def action_sideways(self, direction: int) -> None:
        """Move the cursor of the charts; elsewhere scroll the log."""
        if self.charts.display:
            self.charts_tab.change(lambda: self.charts.move(direction))
        else:
            super().action_sideways(direction)

    def action_log_axis(self) -> None:
        """Change the charts' axis of values."""
        self.charts_tab.change(self.charts.toggle_log)
        self.small_chart.toggle_log()

    def action_zoom(self) -> None:
        """Show a smaller part of the run."""
        self.charts_tab.change(self.charts.zoom)
        self.small_chart.zoom()

    def action_metric(self) -> None:
        """Ask for a metric by its name."""
        self.go("charts")
        self.charts_tab.choosing = True
        prompt = self.query_one(Prompt)
        prompt.placeholder = PROMPT
        prompt.ask()
        self.charts_tab.typed("")

    def action_next_metric(self) -> None:
        """Show the next usual metric."""
        self.go("charts")
        first = self.charts.look.metrics[0]
        at = USUAL.index(first) + 1 if first in USUAL else 0
        self.charts_tab.turn((USUAL[at % len(USUAL)],))

    def action_two_metrics(self) -> None:
        """Show a second metric below the first, or the first alone."""
        self.go("charts")
        first, *others = self.charts.look.metrics
        second = next(each for each in USUAL if each != first)
        self.charts_tab.turn((first,) if others else (first, second))

    def action_time_axis(self) -> None:
        """Change between steps and times."""
        self.go("charts")
        self.charts_tab.change(self.charts.toggle_time)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.charts_tab.typed(event.value)

    @on(Input.Submitted)
    def _chosen(self, event: Input.Submitted) -> None:
        if self.charts_tab.choosing:
            event.prevent_default()  # it is not for the log
            self.close_prompt()
            self.charts_tab.choose(event.value)

    def close_prompt(self) -> None:
        """Take the line away again, and what it offered."""
        self.charts_tab.leave()
        super().close_prompt()

    @on(MetricCharts.Resized)
    def _resized(self) -> None:
        if self.charts.display:
            self.charts_tab.ask()
