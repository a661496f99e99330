"""A run's checkpoints."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.model.words import size
from widgets.line import DIM, EMPTY, text
from widgets.paint_checkpoints import paint_checkpoints
from widgets.report_view import ReportView


class CheckpointTable(ReportView):
    """All checkpoints, newest first; ``▸`` is the one that a relaunch takes."""

    HEADING = "checkpoints"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the table."""
        return paint_checkpoints(report, self.now, width)

    def note(self) -> Content:
        """Return how many are whole and how much they take."""
        found = self.report.facets.checkpoints.value if self.report is not None else None
        if found is None or not found.items:
            return EMPTY
        whole = sum(item.state.value == "complete" for item in found.items)
        total = sum(item.size or 0 for item in found.items)
        return text((f"{whole} of {len(found.items)} complete · {size(total)}", DIM))
