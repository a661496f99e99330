"""What is wrong with a run, and what was."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.line import DIM, text
from widgets.paint_alerts import paint_open, paint_timeline
from widgets.paint_journal import Done
from widgets.report_view import ReportView


class AlertList(ReportView):
    """The open alerts."""

    HEADING = "what is wrong"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the open alerts."""
        return paint_open(report, self.now, width)


class Timeline(ReportView):
    """The open alerts, the closed ones, and what was done."""

    HEADING = "timeline"
    done: Sequence[Done] = ()

    def show_done(self, done: Sequence[Done]) -> None:
        """Show what people did to the run among what went wrong with it."""
        self.done = done
        self.repaint()

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return open alerts, then closed ones and what was done, newest first."""
        return paint_timeline(report, self.now, width, self.done)

    def note(self) -> Content:
        """Return how many."""
        if self.report is None:
            return text("")
        counts = f"{len(self.report.alerts)} open · {len(self.report.closed)} closed"
        counts += f" · {len(self.done)} done" if self.done else ""
        return text((counts, DIM))
