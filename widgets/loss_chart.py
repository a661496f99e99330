"""The loss over the run: a line for the mean, a band for the extremes, marks for non-numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.report import RunReport
from cockpit.model.wording import percent
from widgets.base.painted import Painted
from widgets.painting.chart import LABELS, Drawing, Steady, paint
from widgets.painting.line import DIM, STRONG, frame, text
from widgets.painting.series import loss_columns, why_no_curve

__all__ = ["LABELS", "LossChart", "paint_chart"]

ZOOMS = (1.0, 0.25, 0.05)
_NAMES = {1.0: "the whole run", 0.25: "the last quarter", 0.05: "the last 5 %"}


class LossChart(Painted):
    """A braille chart with axes; ``toggle_log`` and ``zoom`` change what it shows.

    ``whole`` names all that there is to show.
    """

    def __init__(self, whole: str = _NAMES[1.0]) -> None:
        super().__init__()
        self._names = {**_NAMES, 1.0: whole}
        self._report: RunReport | None = None
        self._log = False
        self._zoom = 0
        self._steady = Steady()

    def show(self, report: RunReport) -> None:
        """Show a run's loss."""
        self._report = report
        self.repaint()

    def toggle_log(self) -> None:
        """Change between a linear and a logarithmic axis."""
        self._log, self._steady = not self._log, Steady()
        self.repaint()

    def zoom(self) -> None:
        """Show the next smaller part of the run, then all of it again."""
        self._zoom, self._steady = (self._zoom + 1) % len(ZOOMS), Steady()
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed chart."""
        if self._report is None:
            return []
        tail = ZOOMS[self._zoom]
        drawing = _drawing(loss_columns(self._report), self._log, tail, why_no_curve(self._report))
        tracker = self._report.facets.tracker.value
        newest = None if tracker is None else tracker.true_loss
        drawing = replace(drawing, newest=newest, steady=self._steady)
        body = paint(drawing, width - 4, height - 2)
        title = text(("loss ", STRONG), (self._names[tail], DIM))
        return frame(body, width, height, title=title, note=self._read())

    def _read(self) -> Content:
        """Return how much of the file has been read, until all of it has."""
        tracker = self._report.facets.tracker.value if self._report is not None else None
        if tracker is None or not tracker.columns or tracker.scanned >= 1:
            return text("")
        return text((f"{percent(tracker.scanned)} read", DIM))


def paint_chart(
    columns: list[Column],
    width: int,
    height: int,
    log: bool | None,
    tail: float,
    why: str = "no loss logged yet",
) -> list[Content]:
    """Return a chart's lines (see ``chart.paint``) over the last ``tail`` share of its steps."""
    return paint(_drawing(columns, log, tail, why), width, height)


def _drawing(columns: list[Column], log: bool | None, tail: float, why: str) -> Drawing:
    extent = None
    if columns and tail < 1.0:
        first, last = min(each.first for each in columns), max(each.last for each in columns)
        extent = last - math.floor((last - first) * max(0.0, tail)), last
    return Drawing(columns, extent=extent, log=log, why=why)
