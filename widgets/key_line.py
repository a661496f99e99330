"""The last line: the few keys that matter here, or what the cockpit has to say about itself."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from widgets.line import ACCENT, DIM, EMPTY, row, text, whole
from widgets.painted import Painted

Key = tuple[str, str]
KEYS = 24
"""Columns that are left to the keys beside a long notice."""


def paint_keys(keys: Sequence[Key], notice: str, width: int) -> Content:
    """Return keys with their titles, as many as fit whole, and a notice at the right."""
    said = text((notice, "$attention")) if notice else EMPTY
    room = width - 2 - (min(said.cell_length, _most(width)) + 3 if notice else 0)
    items = [text((key, f"bold {ACCENT}"), (f" {title}", DIM)) for key, title in keys]
    needed = sum(each.cell_length for each in items)
    gap = "   " if needed + 3 * len(items) <= room + 3 else "  "
    return row(text(" ", whole(items, room, gap)), _cut(said, width), width - 1)


def _cut(said: Content, width: int) -> Content:
    return said.truncate(_most(width), ellipsis=True)


def _most(width: int) -> int:
    """Return how much of a line a notice may take: it is read now, the keys are known soon."""
    return max(0, width // 2, width - KEYS)


class KeyLine(Painted):
    """The footer."""

    DEFAULT_CSS = """
    KeyLine { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: Sequence[Key] = ()
        self._notice = ""

    def show(self, keys: Sequence[Key], notice: str = "") -> None:
        """Show keys and, if there is one, a notice."""
        self._keys, self._notice = keys, notice
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the line."""
        return [paint_keys(self._keys, self._notice, width)]
