"""What the keys of the charts tab do: cursor, zoom, axes, metrics by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.widgets import Input

from screens.log_keys import LogKeys
from screens.prompt import Prompt
from screens.run_charts import PROMPT
from widgets.fleet_header import KeyLine
from widgets.metric_charts import MetricCharts

if TYPE_CHECKING:
    from screens.run_charts import ChartsTab
    from widgets.metric_charts import LossChart


class ChartKeys(LogKeys):
    """A screen with a charts tab beside the log's; ``go_to_charts`` shows it."""

    @property
    def charts_tab(self) -> ChartsTab:
        """What stands between the charts and the engine."""
        raise NotImplementedError

    @property
    def charts(self) -> MetricCharts:
        """The charts."""
        raise NotImplementedError

    @property
    def small_chart(self) -> LossChart:
        """The chart that stands beside other tabs."""
        raise NotImplementedError

    def go_to_charts(self) -> None:
        """Show the charts' tab."""
        raise NotImplementedError

    def action_sideways(self, direction: int) -> None:
        """Move the cursor of the charts; elsewhere scroll the log."""
        if self.charts.display:
            self.charts_tab.sideways(direction)
        else:
            super().action_sideways(direction)

    def action_log_axis(self) -> None:
        """Change the charts' axis of values."""
        self.charts_tab.look(self.charts.toggle_log)
        self.small_chart.toggle_log()

    def action_zoom(self) -> None:
        """Show a smaller part of the run."""
        self.charts_tab.look(self.charts.zoom)
        self.small_chart.zoom()

    def action_metric(self) -> None:
        """Ask for a metric by its name."""
        self.go_to_charts()
        self.charts_tab.choosing = True
        self.query_one(KeyLine).display = False
        prompt = self.query_one(Prompt)
        prompt.placeholder = PROMPT
        prompt.ask()
        self.charts_tab.typed("")

    def action_next_metric(self) -> None:
        """Show the next usual metric."""
        self.go_to_charts()
        self.charts_tab.next_metric()

    def action_two_metrics(self) -> None:
        """Show two metrics, or one."""
        self.go_to_charts()
        self.charts_tab.two()

    def action_time_axis(self) -> None:
        """Change between steps and times."""
        self.go_to_charts()
        self.charts_tab.look(self.charts.toggle_time)

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
