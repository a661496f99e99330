"""The loss over the run."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.line import DIM, STRONG, frame, text
from widgets.paint_chart import paint_chart
from widgets.painted import Painted
from widgets.series import loss_columns

ZOOMS = (1.0, 0.25, 0.05)
_NAMES = {1.0: "the whole run", 0.25: "the last quarter", 0.05: "the last twentieth"}


class LossChart(Painted):
    """A braille chart with axes; ``toggle_log`` and ``zoom`` change what it shows."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._report: RunReport | None = None
        self._log = False
        self._zoom = 0

    def show(self, report: RunReport) -> None:
        """Show a run's loss."""
        self._report = report
        self.repaint()

    def toggle_log(self) -> None:
        """Change between a linear and a logarithmic axis."""
        self._log = not self._log
        self.repaint()

    def zoom(self) -> None:
        """Show the next smaller part of the run, then all of it again."""
        self._zoom = (self._zoom + 1) % len(ZOOMS)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed chart."""
        if self._report is None:
            return []
        columns = loss_columns(self._report)
        tail = ZOOMS[self._zoom]
        body = paint_chart(columns, width - 4, height - 2, self._log, tail)
        title = text(("loss ", STRONG), (_NAMES[tail], DIM))
        return frame(body, width, height, title=title, note=self._read())

    def _read(self) -> Content:
        """Return how much of the file has been read, until all of it has."""
        tracker = self._report.facets.tracker.value if self._report is not None else None
        if tracker is None or not tracker.columns or tracker.scanned >= 1:
            return text("")
        return text((f"{tracker.scanned:.0%} read", DIM))
