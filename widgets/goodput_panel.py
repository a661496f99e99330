"""What a run's wall time went to, where there is room for it."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.goodput_words import headline
from cockpit.model.report import RunReport
from widgets.base.scrolled import ReportView
from widgets.painting.goodput import paint_goodput
from widgets.painting.line import DIM, text


class GoodputPanel(ReportView):
    """A split bar, its legend, and what was lost."""

    HEADING = "goodput"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the account."""
        return paint_goodput(report, width)

    def note(self) -> Content:
        """Return the share and since when."""
        found = None if self.report is None else self.report.goodput
        return text("") if found is None else text((headline(found).removeprefix("goodput "), DIM))
