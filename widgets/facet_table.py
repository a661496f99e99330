"""Every source of a run."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.paint_facets import paint_facets
from widgets.report_view import ReportView


class FacetTable(ReportView):
    """Each facet's value, age, source and error."""

    HEADING = "facets"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return all facets."""
        return paint_facets(report, self.now, width)
