"""What happened to a run, newest first, one kind or all; and the last lines of a log as it was."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.past import NEXT_KIND, Happening, Kind, Timeline
from cockpit.model.report import RunReport
from widgets.base.scrolled import ReportView, Scrolled
from widgets.painting.line import DIM, STRONG, foreign, text, wrapped
from widgets.painting.past import paint_happening, when_width


class HappeningList(Scrolled):
    """A timeline; its cursor stands on a happening."""

    POINTS = True

    def __init__(self) -> None:
        super().__init__()
        self.found: Timeline | None = None
        self.kind: Kind | None = None
        self.why = "reading the store"
        self._now = 0.0

    @property
    def happenings(self) -> Sequence[Happening]:
        """What is listed, newest first."""
        return () if self.found is None else self.found.of_kind(self.kind)

    @property
    def at_cursor(self) -> Happening | None:
        """What the cursor stands on."""
        listed = self.happenings
        return listed[self.cursor] if self.cursor < len(listed) else None

    def show(self, found: Timeline | None, now: float, why: str = "") -> None:
        """Show a timeline; ``why`` says why there is none."""
        self.found, self._now, self.why = found, now, why or self.why
        self.repaint()

    def only(self) -> None:
        """Show one kind alone: the next that there is something of, in the end all again."""
        self.kind = next_kind(self.found, self.kind)
        self.cursor = 0
        self.repaint()

    def stand_at(self, at: float) -> None:
        """Put the cursor on the newest happening that is not after ``at``."""
        listed = self.happenings
        places = (place for place, each in enumerate(listed) if each.at <= at)
        self.cursor = next(places, max(0, len(listed) - 1))
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the happenings, or why there are none."""
        listed = self.happenings
        if self.found is None or not listed:
            said = self.why if self.found is None else "nothing has happened yet"
            return wrapped(text((said, DIM)), width, 4)
        alone = self.kind is None
        when = when_width(listed, self._now)
        return [paint_happening(each, self._now, width, when, named=alone) for each in listed]

    def place(self, lines: int) -> str:
        """Return where the cursor is among what is listed."""
        return f"{self.cursor + 1:,} of {lines:,}"

    def title(self) -> Content:
        """Return what is listed."""
        only = "" if self.kind is None else f" · {self.kind.value} only"
        return text(("timeline", STRONG), (only, DIM))

    def note(self) -> Content:
        """Return what is missing."""
        lacks = () if self.found is None else self.found.lacks
        return text((lacks[0], "$attention")) if lacks else text("")


def next_kind(found: Timeline | None, kind: Kind | None) -> Kind | None:
    """Return the kind to show after ``kind``, of those that something has happened of."""
    there = set() if found is None else {each.kind for each in found.happenings}
    kind = NEXT_KIND[kind]
    while kind is not None and kind not in there:
        kind = NEXT_KIND[kind]
    return kind


class KeptLog(ReportView):
    """The last lines of the log as they were at a moment of the past."""

    HEADING = "log"

    def show(self, report: RunReport, now: float) -> None:
        """Show a moment's lines, another moment's from their end."""
        log = report.facets.log.value
        if self.report is not report and log is not None:
            self.cursor = max(0, len(log.lines) - 1)
        super().show(report, now)

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the lines that are kept, or why there are none."""
        log = report.facets.log
        if log.value is None or not log.value.lines:
            why = log.error.message if log.error is not None else "no line is kept"
            return wrapped(text((f"? {why}", DIM)), width, 4)
        return [self.kept(foreign(line)) for line in log.value.lines]

    def note(self) -> Content:
        """Return that these are not all lines."""
        log = None if self.report is None else self.report.facets.log.value
        count = 0 if log is None else len(log.lines)
        return text((f"the last {count} lines then", DIM)) if count else text("")
