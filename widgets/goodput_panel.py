"""What a run's wall time went to, where there is room for it."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.goodput_words import took
from cockpit.model.report import RunReport
from cockpit.model.wording import share
from widgets.base.scrolled import ReportView
from widgets.painting.goodput import account_of, paint_goodput
from widgets.painting.line import DIM, text


class GoodputPanel(ReportView):
    """A split bar, its legend, and what was lost."""

    HEADING = "goodput"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the account."""
        return paint_goodput(report, width)

    def note(self) -> Content:
        """Return the share, and of how long."""
        found = None if self.report is None else account_of(self.report)
        if found is None or found.share is None:
            return text("")
        watched = took(found.split.wall_s - found.split.unwatched_s)
        return text(share(found.share), (f" of {watched}", DIM))
