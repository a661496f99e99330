"""The base of the views that are given a report and paint it as a framed list."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.line import STRONG, text
from widgets.scrolled import Scrolled


class ReportView(Scrolled):
    """Shows one report; ``HEADING`` stands in the frame."""

    HEADING = ""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.report: RunReport | None = None
        self.now = 0.0

    def show(self, report: RunReport, now: float) -> None:
        """Show a report at a moment."""
        self.report, self.now = report, now
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the lines of the report, none before there is one."""
        return [] if self.report is None else self.lines_of(self.report, width)

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the lines of a report."""
        raise NotImplementedError

    def title(self) -> Content:
        """Return the heading."""
        return text((self.HEADING, STRONG))
