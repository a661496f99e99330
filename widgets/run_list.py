"""The fleet as a list that scrolls by whole runs; only what is visible is painted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message

from cockpit.model.report import RunReport
from widgets.line import DIM, text
from widgets.paint_list import columns, height_of, paint_row
from widgets.painted import Painted


class RunList(Painted):
    """Runs in the given order, the selected one always in sight."""

    @dataclass
    class Clicked(Message):
        """A person clicked on a run."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self._reports: Sequence[RunReport] = ()
        self._now = 0.0
        self._selected = 0
        self._top = 0
        self._roomy = False
        self._ample = False
        self._owners: list[str] = []

    def show(self, reports: Sequence[RunReport], now: float, selected: int) -> None:
        """Show runs at a moment, ``selected`` being the place of the chosen one."""
        self._reports, self._now, self._selected = reports, now, selected
        self.repaint()

    @property
    def page(self) -> int:
        """How many runs are in sight."""
        return max(1, len(set(self._owners)))

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the lines in sight."""
        self._roomy = 2 * len(self._reports) <= height
        self._ample = sum(height_of(each, True, True) for each in self._reports) <= height
        self._top = self._first_in_sight(height)
        shared = columns(self._reports[self._top : self._top + height], self._now, width)
        lines: list[Content] = []
        self._owners = []
        for place in range(self._top, len(self._reports)):
            report = self._reports[place]
            if len(lines) + height_of(report, self._roomy, self._ample) > height:
                break
            chosen = place == self._selected
            painted = paint_row(report, self._now, width, shared, chosen, self._roomy, self._ample)
            lines.extend(painted)
            self._owners.extend([report.name] * len(painted))
        hidden = len(self._reports) - len(set(self._owners))
        if hidden and len(lines) < height:
            lines.append(text((f"    … {hidden} more of {len(self._reports)}", DIM)))
        return lines

    def _first_in_sight(self, height: int) -> int:
        """Return the first run to show: as before, moved just enough to hold the selected one."""
        if self._roomy:
            return 0
        top = min(self._top, self._selected, max(0, len(self._reports) - 1))
        room = height - sum(height_of(each) for each in self._reports[top : self._selected + 1])
        while room < 0 and top < self._selected:
            room += height_of(self._reports[top])
            top += 1
        return max(0, top)

    def on_click(self, event: events.Click) -> None:
        """Tell which run was clicked."""
        if event.y < len(self._owners):
            self.post_message(self.Clicked(self._owners[event.y]))
