"""The head of the run screen and its tabs."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.paint_run import empty_head, paint_head, paint_tabs
from widgets.painted import Painted


class RunHeader(Painted):
    """Three lines: who it is, what it needs, where one is."""

    DEFAULT_CSS = """
    RunHeader { height: 3; }
    """

    def __init__(self, tabs: Sequence[str]) -> None:
        super().__init__()
        self._tabs = tabs
        self._report: RunReport | None = None
        self._run = ""
        self._now = 0.0
        self._current = 0

    def show(self, name: str, report: RunReport | None, now: float, current: int) -> None:
        """Show a run and the current tab."""
        self._run, self._report, self._now, self._current = name, report, now, current
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the three lines."""
        report = self._report
        head = empty_head(self._run) if report is None else paint_head(report, self._now, width)
        return [*head, paint_tabs(self._tabs, self._current, width)]
