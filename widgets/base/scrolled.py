"""A framed list of lines with a cursor: steps move the cursor, not the whole screen."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.base.painted import Painted
from widgets.painting.line import DIM, EMPTY, STRONG, frame, text


class Scrolled(Painted):
    """Lines in a frame. The cursor steps within the page; the page turns when it leaves it.

    A subclass gives ``body`` (all lines for a width), ``title`` and ``note``; ``POINTS`` if keys
    act on what stands at the cursor: then it is shown where nothing scrolls, too.
    """

    POINTS: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.cursor = 0
        self.steered = True
        """False where no key moves the cursor: then it is not shown, only what is hidden."""
        self._top = 0
        self._count = 0

    def body(self, width: int) -> list[Content]:
        """Return all lines for this inner width."""
        raise NotImplementedError

    def title(self) -> Content:
        """Return what stands in the frame at the left."""
        return EMPTY

    def note(self) -> Content:
        """Return what stands in the frame at the right."""
        return EMPTY

    def place(self, lines: int) -> str:
        """Return where the cursor is, in what is listed: lines, unless a subclass counts better."""
        return f"line {self.cursor + 1:,} of {lines:,}"

    @property
    def room(self) -> int:
        """How many lines are in sight."""
        return max(1, self.size.height - 2)

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the frame with the lines in sight."""
        lines = self.body(max(1, width - 4))
        self._count = len(lines)
        self._hold(height - 2)
        shown = lines[self._top : self._top + max(0, height - 2)]
        scrolls = len(lines) > height - 2
        at = self.cursor - self._top
        if self.steered and (scrolls or self.POINTS) and 0 <= at < len(shown):
            shown[at] = shown[at].truncate(width - 4, pad=True).stylize_before("on $cursor")
        below = len(lines) - self._top - len(shown)
        place = self.place(len(lines)) if self.steered else f"↓ {below:,} more lines"
        foot = text((place, DIM)) if scrolls else EMPTY
        return frame(shown, width, height, self.title(), self.note(), foot)

    def _hold(self, room: int) -> None:
        """Keep the cursor inside, and in sight: turn half a page when it leaves it."""
        self.cursor = max(0, min(self.cursor, self._count - 1))
        last = max(0, self._count - room)
        if self.cursor < self._top:
            self._top = self.cursor - room // 2 if self.cursor >= self._top - 1 else self.cursor
        elif self.cursor >= self._top + room:
            near = self.cursor <= self._top + room
            self._top = self.cursor - (room // 2 if near else room - 1)
        self._top = max(0, min(self._top, last))

    def move(self, steps: int) -> None:
        """Move the cursor."""
        self.cursor = max(0, min(self.cursor + steps, max(0, self._count - 1)))
        self.repaint()

    def page(self, pages: int) -> None:
        """Turn pages."""
        self._top = max(0, self._top + pages * self.room)
        self.move(pages * self.room)

    def edge(self, end: bool) -> None:
        """Go to the first or last line."""
        self.move(self._count if end else -self._count)


class ReportView(Scrolled):
    """Shows one report; ``HEADING`` stands in the frame."""

    HEADING = ""

    def __init__(self) -> None:
        super().__init__()
        self.report: RunReport | None = None
        self.now = 0.0

    def show(self, report: RunReport, now: float) -> None:
        """Show a report at a moment."""
        self.report, self.now = report, now
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the lines of the report, none before there is one."""
        return [] if self.report is None else self.lines_of(self.report, width)

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the lines of a report."""
        raise NotImplementedError

    def title(self) -> Content:
        """Return the heading."""
        return text((self.HEADING, STRONG))
