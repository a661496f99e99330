"""What happened to a run, newest first, one kind or all."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.past import NEXT_KIND, Happening, Kind, Timeline
from cockpit.model.wording import day_of
from widgets.base.scrolled import Scrolled
from widgets.painting.line import DIM, STRONG, text, wrapped
from widgets.painting.past import paint_happening, when_width


class HappeningLines:
    """The lines of a timeline, painted once for as long as they read the same."""

    def __init__(self) -> None:
        self._of: tuple[Timeline, Kind | None, str, int] | None = None
        self._lines: list[Content] = []

    def painted(
        self, found: Timeline, kind: Kind | None, now: float, width: int
    ) -> tuple[Sequence[Happening], list[Content]]:
        """Return the happenings of a kind (``None``: all), and each one's line."""
        listed, of = found.of_kind(kind), (found, kind, day_of(now), width)
        former = self._of
        if former is None or former[0] is not found or former[1:] != of[1:]:
            when, named = when_width(listed, now), kind is None
            self._of = of
            self._lines = [paint_happening(each, now, width, when, named=named) for each in listed]
        return listed, self._lines


class HappeningList(Scrolled):
    """A timeline; its cursor stands on a happening."""

    POINTS = True

    def __init__(self) -> None:
        super().__init__()
        self.found: Timeline | None = None
        self.kind: Kind | None = None
        self.why = "reading the store"
        self._now = 0.0
        self._painted = HappeningLines()

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
        return self._painted.painted(self.found, self.kind, self._now, width)[1]

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
