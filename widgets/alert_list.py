"""What is wrong with a run, and what was."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.line import DIM, text
from widgets.paint_alerts import paint_open, paint_timeline
from widgets.report_view import ReportView


class AlertList(ReportView):
    """The open alerts."""

    HEADING = "what is wrong"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the open alerts."""
        return paint_open(report, self.now, width)


class Timeline(ReportView):
    """The open alerts and the closed ones."""

    HEADING = "timeline"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return open and closed alerts."""
        return paint_timeline(report, self.now, width)

    def note(self) -> Content:
        """Return how many."""
        if self.report is None:
            return text("")
        counts = f"{len(self.report.alerts)} open · {len(self.report.closed)} closed"
        return text((counts, DIM))
