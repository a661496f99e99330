"""What a screen of cells shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from cockpit.app.output.cells import Cell, Row, blank


class Grid:
    """Rows of cells; what is put over half a wide character leaves a blank in its other half."""

    def __init__(self, width: int = 0, height: int = 0, of: Cell | None = None) -> None:
        self.width, self.height = width, height
        self.rows: list[Row] = [[of or blank()] * width for _ in range(height)]

    def put(self, y: int, x: int, cells: Sequence[Cell]) -> None:
        """Put cells at a place; what lies outside is left out."""
        if not 0 <= y < self.height or not 0 <= x < self.width:
            return
        row = self.rows[y]
        end = min(x + len(cells), self.width)
        row[x:end] = cells[: end - x]
        if not row[x][0]:
            row[x] = blank(row[x][1])
        if x and _halved(row, x - 1):
            row[x - 1] = blank(row[x - 1][1])
        if end < self.width and not row[end][0]:
            row[end] = blank(row[end][1])
        if _halved(row, end - 1):
            row[end - 1] = blank(row[end - 1][1])

    def resized(self, width: int, height: int) -> Grid:
        """Return a grid of another size that shows the same, as far as it goes."""
        other = Grid(width, height)
        for y, row in enumerate(self.rows[:height]):
            other.put(y, 0, row)
        return other


def _halved(row: Row, x: int) -> bool:
    """Return whether a wide character stands here that has lost its second cell."""
    letter = row[x][0]
    if letter.isascii() or cell_len(letter) < 2:
        return False
    return x + 1 == len(row) or row[x + 1][0] != ""
