"""Lists that scroll, with a row selected, and text in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message

from cockpit.model.report import RunReport
from widgets.painted import Painted
from widgets.painting.line import DIM, EMPTY, LINE, STRONG, cut, fit, frame, text


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


Body = Callable[[int], list[Content]]


class Row(NamedTuple):
    """A row of a list: what it is about, and its lines for a width, chosen or not.

    One without a key is a heading or a remark, which cannot be chosen.
    """

    key: str
    paint: Callable[[int, bool], Sequence[Content]]


def remark(*lines: Content) -> Row:
    """Return a heading or a remark that is no wider than any screen."""
    return Row("", lambda width, chosen: lines)


class ListBody:
    """The body of a page that is a list; it knows where the chosen row stands."""

    def __init__(self, rows: Sequence[Row], chosen: str) -> None:
        self.rows, self.chosen = rows, chosen
        self.places: dict[str, tuple[int, int]] = {}
        """The first line of each row, and the one behind its last."""

    def __call__(self, width: int) -> list[Content]:
        """Return all lines for a width."""
        lines: list[Content] = []
        for row in self.rows:
            begin = len(lines)
            lines += row.paint(width, bool(row.key) and row.key == self.chosen)
            self.places[row.key] = begin, len(lines)
        return lines


class RowClicked(Message):
    """A person clicked on the row of a list that has this key."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class Sheet(NamedTuple):
    """What a page shows: ``body`` gives its lines for a width, ``foot`` stands below a rule."""

    body: Body
    title: Content = EMPTY
    note: Content = EMPTY
    foot: Sequence[Content] = ()
    line: str = LINE


class Paged(Painted):
    """Scrolls by lines and pages; keeps its place while what it shows stays the same."""

    def __init__(self, sheet: Sheet | None = None) -> None:
        super().__init__()
        self.sheet = sheet or Sheet(lambda width: [])
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

    def on_click(self, event: events.Click) -> None:
        """Tell which row was clicked."""
        line, body = self.top + event.y - 1, self.sheet.body
        if not isinstance(body, ListBody) or not 1 <= event.y <= self.room:
            return
        for key, (begin, end) in body.places.items():
            if key and begin <= line < end:
                self.post_message(RowClicked(key))

    def move(self, steps: int) -> None:
        """Scroll by lines."""
        self.top += steps
        self.repaint()

    def page(self, pages: int) -> None:
        """Scroll by pages, one line of which stays in sight."""
        self.move(pages * max(1, self.room - 1))

    def reveal(self, first: int, end: int) -> None:
        """Scroll just enough that these lines are in sight; of too many the first ones are."""
        self.move(min(max(self.top, end - self.room), first) - self.top)

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the page: body, rule, foot, in one frame."""
        body = self.lines_for(width)
        room = max(0, height - self.around)
        self.top = max(0, min(self.top, len(body) - room))
        shown = body[self.top : self.top + room]
        below = len(body) - self.top - len(shown)
        parts = [f"{self.top:,} above"] if self.top else []
        parts += [f"{below:,} more below: pgdn"] if below > 0 else []
        sheet, hidden = self.sheet, text((" · ".join(parts), DIM))
        if not sheet.foot:
            return frame(shown, width, height, sheet.title, sheet.note, hidden, sheet.line)
        inside = [*shown, *[EMPTY] * (room - len(shown)), EMPTY, *sheet.foot]
        whole = frame(inside, width, height, sheet.title, sheet.note, line=sheet.line)
        if 1 + room < len(whole) and width >= 8:
            said = text(" ", cut(hidden, width - 6), " ") if hidden.plain else EMPTY
            rule = "─" * (width - 3 - said.cell_length)
            line = sheet.line
            whole[1 + room] = fit(text((f"├{rule}", line), said, ("─┤", line)), width)
        return whole
