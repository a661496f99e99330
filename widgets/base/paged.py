"""A framed page of lines that scrolls, over a foot that always stays in sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.content import Content

from widgets.base.painted import Painted
from widgets.painting.line import DIM, EMPTY, LINE, cut, fit, frame, text

Body = Callable[[int], list[Content]]


class Sheet(NamedTuple):
    """What a page shows: ``body`` gives its lines for a width, ``foot`` stands below a rule."""

    body: Body
    title: Content = EMPTY
    note: Content = EMPTY
    foot: Sequence[Content] = ()
    line: str = LINE


class Paged(Painted):
    """Scrolls by lines and pages; keeps its place while what it shows stays the same."""

    def __init__(self) -> None:
        super().__init__()
        self.sheet = Sheet(lambda width: [])
        self.top = 0
        self._made: tuple[Body, int, list[Content]] | None = None

    def show(self, sheet: Sheet, *, from_top: bool = False) -> None:
        """Show a sheet; ``from_top`` begins to read it anew."""
        self.sheet = sheet
        self.top = 0 if from_top else self.top
        self.repaint()

    def lines_for(self, width: int) -> list[Content]:
        """Return all lines of the body for the page's whole ``width``."""
        if self._made is None or self._made[:2] != (self.sheet.body, width):
            self._made = (self.sheet.body, width, self.sheet.body(max(1, width - 4)))
        return self._made[2]

    @property
    def around(self) -> int:
        """Rows that are not the body's."""
        return 2 + (1 + len(self.sheet.foot) if self.sheet.foot else 0)

    @property
    def room(self) -> int:
        """Rows that the body has."""
        return max(1, self.size.height - self.around)

    def move(self, steps: int) -> None:
        """Scroll by lines."""
        self.top += steps
        self.repaint()

    def page(self, pages: int) -> None:
        """Scroll by pages, one line of which stays in sight."""
        self.move(pages * max(1, self.room - 1))

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the page: body, rule, foot, in one frame."""
        body = self.lines_for(width)
        room = max(0, height - self.around)
        self.top = max(0, min(self.top, len(body) - room))
        shown = body[self.top : self.top + room]
        below = len(body) - self.top - len(shown)
        sheet = self.sheet
        hidden = _hidden(self.top, below)
        if not sheet.foot:
            return frame(shown, width, height, sheet.title, sheet.note, hidden, sheet.line)
        inside = [*shown, *[EMPTY] * (room - len(shown)), EMPTY, *sheet.foot]
        whole = frame(inside, width, height, sheet.title, sheet.note, line=sheet.line)
        if 1 + room < len(whole) and width >= 8:
            whole[1 + room] = _rule(width, hidden, sheet.line)
        return whole


def _hidden(above: int, below: int) -> Content:
    parts = [f"{above:,} above"] if above else []
    parts += [f"{below:,} more below: pgdn"] if below > 0 else []
    return text((" · ".join(parts), DIM)) if parts else EMPTY


def _rule(width: int, hidden: Content, line: str) -> Content:
    said = text(" ", cut(hidden, width - 6), " ") if hidden.plain else EMPTY
    rule = "─" * (width - 3 - said.cell_length)
    return fit(text((f"├{rule}", line), said, ("─┤", line)), width)
