"""One run in a panel of the fleet."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message

from cockpit.model.report import RunReport
from widgets.paint_panel import paint_panel
from widgets.painted import Painted


class RunPanel(Painted):
    """A slot of the grid: shows whichever run it is given."""

    @dataclass
    class Clicked(Message):
        """A person clicked on a run."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self.report: RunReport | None = None
        self._now = 0.0
        self._selected = False

    def show(self, report: RunReport | None, now: float, selected: bool) -> None:
        """Show a run at a moment; nothing is written if that changes nothing."""
        self.report, self._now, self._selected = report, now, selected
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the panel's lines."""
        if self.report is None:
            return []
        return paint_panel(self.report, self._now, width, height, self._selected)

    def on_click(self) -> None:
        """Tell which run was clicked."""
        if self.report is not None:
            self.post_message(self.Clicked(self.report.name))
