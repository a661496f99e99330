"""The fleet as panels, when all of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Grid

from cockpit.model.report import RunReport
from widgets.run_panel import LEAST_HEIGHT, MOST_HEIGHT, RunPanel

LEAST_WIDTH = 58


class GridShape(NamedTuple):
    """How many columns of panels, and how high each is."""

    columns: int
    height: int


def shape(count: int, width: int, height: int) -> GridShape | None:
    """Return how ``count`` panels fit into a space, ``None`` if they do not."""
    across = width // LEAST_WIDTH
    if not count or not across:
        return None
    rows = -(-count // across)
    high = min(MOST_HEIGHT, height // rows)
    return GridShape(-(-count // rows), high) if high >= LEAST_HEIGHT else None


class PanelGrid(Grid):
    """Slots for panels; a change of order moves reports between slots, not widgets."""

    DEFAULT_CSS = """
    PanelGrid { height: 1fr; grid-gutter: 0 1; padding: 0 1; }
    """

    def __init__(self, slots: int = 0) -> None:
        super().__init__()
        self._slots = slots
        self._shape: GridShape | None = None

    def compose(self) -> ComposeResult:
        """Make the slots that are known to be needed, so that they are in the first frame."""
        yield from (RunPanel() for _ in range(self._slots))

    def show(
        self, reports: Sequence[RunReport], now: float, selected: int, shape: GridShape
    ) -> None:
        """Show all runs, the ``selected``-th marked."""
        self._reshape(shape, len(reports))
        for place, panel in enumerate(self.query(RunPanel)):
            report = reports[place] if place < len(reports) else None
            panel.show(report, now, place == selected)

    def _reshape(self, shape: GridShape, count: int) -> None:
        panels = list(self.query(RunPanel))
        if len(panels) < count:
            self.mount_all(RunPanel() for _ in range(count - len(panels)))
        for place, panel in enumerate(panels):
            panel.display = place < count
        if shape != self._shape:
            self._shape = shape
            self.styles.grid_size_columns = shape.columns
            self.styles.grid_rows = str(shape.height)
