"""What matters most of a run, enlarged, for a screen that others look at."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.base.painted import Painted
from widgets.painting.big import HEIGHT, paint_big


class BigFigures(Painted):
    """The verdict, the step, the loss and what else has room, three rows high."""

    DEFAULT_CSS = f"""
    BigFigures {{ height: {HEIGHT}; }}
    """

    def __init__(self) -> None:
        super().__init__()
        self._report: RunReport | None = None
        self._now = 0.0
        self._plain = False

    def show(self, report: RunReport | None, now: float, *, plain: bool) -> None:
        """Show a run at a moment (``None``: nothing); ``plain``: in letters of every terminal."""
        self._report, self._now, self._plain = report, now, plain
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the band."""
        if self._report is None:
            return []
        return paint_big(self._report, self._now, width, plain=self._plain)
