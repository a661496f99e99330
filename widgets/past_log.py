"""A log as it was at a moment of the past: from the log itself, else the lines that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.logtext import LogPage
from cockpit.model.safetext import SafeText
from widgets.log_view import LogView
from widgets.painting.line import DIM, STRONG, frame, text, wrapped

NOTHING: Final = LogPage((), (), 0, 0, 0)


class PastLog(LogView):
    """Holds still at the end of then; ``told`` says what it shows and how that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.following = False
        self.told = ""

    def show_kept(self, lines: Sequence[SafeText], told: str) -> None:
        """Show lines of which only the order is known, or why there is none."""
        self.told, self.placed = told, False
        self._take(NOTHING._replace(lines=tuple(lines), offsets=tuple(range(len(lines)))))
        self._to_end()

    def show_then(self, page: LogPage, told: str) -> None:
        """Show the end of the log as it was; what stands before it is asked for when near."""
        self.told, self.placed = told, True
        self._take(page)
        self._to_end()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed lines in sight, or why there is none."""
        if self.held:
            return super().paint(width, height)
        why = wrapped(text((f"? {self.told}", DIM)), max(1, width - 4), 4)
        return frame(why, width, height, text(("log", STRONG)))

    def _title(self) -> Content:
        return text(("log ", STRONG), (self.told, DIM))
