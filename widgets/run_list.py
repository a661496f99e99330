"""The list of runs of the fleet: as rows, or as a grid of panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import glyph, text_lifetime
from widgets.painted import Kept, Painted, alike, kept
from widgets.painting import facts, rows
from widgets.painting.line import ACCENT, DIM, EMPTY, cut, fit, group_line, lines_of, text
from widgets.painting.panel import (
    LOG,
    Body,
    Groups,
    Tile,
    Tiling,
    Wishes,
    needs_person,
    paint_panel,
)
from widgets.painting.run_line import MARGIN, ListColumns, columns, paint_columns, paint_heading

T = TypeVar("T")


@dataclass
class RunClicked(Message):
    """A person clicked on a run of the fleet."""

    name: str


class RunPanel(Painted):
    """A slot of the grid: shows whichever run it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.report: RunReport | None = None
        self._now = 0.0
        self._marks = (False, False)
        self._kept: Kept | None = None
        """What was painted last: most panels stay as they are, whatever is pressed or comes in."""

    def show(
        self, report: RunReport | None, now: float, selected: bool, liked: bool = False
    ) -> None:
        """Show a run at a moment; nothing is written if that changes nothing."""
        self.report, self._now, self._marks = report, now, (selected, liked)
        self.repaint()

    def aged(self, now: float) -> bool:
        """Return whether an age in it may read otherwise by now."""
        return self.report is not None and not (self._kept is not None and self._kept.lasts(now))

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the panel's lines."""
        if self.report is None:
            return []
        paint = partial(paint_panel, self.report, self._now, width, height, *self._marks)
        about = (width, height, self._marks)
        self._kept = kept(self.report, self._now, about, paint, self._kept)
        return self._kept.lines

    def on_click(self, event: events.Click) -> None:
        """Tell which run was clicked."""
        if self.report is not None:
            self.post_message(RunClicked(self.report.name))


INDENT: Final = 5
HEADED: Final = 9
"""Lines of a list from which the first one names its columns."""
_WRONG: Final[Wishes] = (("title", 1), ("act", 2))
"""What stands below a run that something is wrong with, whatever the room."""
_SICK: Final[Wishes] = (
    *_WRONG, ("more", 1), ("log", LOG), ("proof", 2), ("state", 1), ("day", 1), ("more", 3),
    ("log", 4),
)  # fmt: skip
_WELL: Final[Wishes] = (*_WRONG, ("state", 1), ("log", LOG), ("day", 1), ("state", 2))
"""What more is said where there is room, one wish after the other."""


class RunList(Painted):
    """Runs in the given order, the selected one always in sight."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: Sequence[RunReport] = ()
        self._now = 0.0
        self._selected = 0
        self._top = 0
        self._standing = 0
        self._heights: tuple[object, list[int]] = (None, [])
        self._owners: list[str] = []
        self._nothing = ("", "")
        self._titles: dict[int, str] = {}
        self._liked: frozenset[str] = frozenset()
        self._shared = Reckoned[ListColumns]()
        self._shares = Reckoned[list[int]]()
        self._kept: dict[str, Kept] = {}
        """The rows that were painted last: most stand as they stood, whatever comes."""

    def show(
        self,
        reports: Sequence[RunReport],
        now: float,
        selected: int,
        nothing: tuple[str, str] = ("", ""),
        groups: Groups = (),
        liked: frozenset[str] = frozenset(),
        standing: int = 0,
    ) -> None:
        """Show runs at a moment, ``selected`` being the place of the chosen one.

        ``nothing`` is why there are none, and what to do about it. As long as ``standing`` is the
        same each run keeps its lines, unless one has more to say than those hold.
        """
        self._standing = standing
        self._reports, self._now, self._selected = reports, now, selected
        self._nothing, self._liked = nothing, liked
        self._titles = titles_of(groups)
        self.repaint()

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The runs in sight, from the top."""
        return tuple(dict.fromkeys(filter(None, self._owners)))

    @property
    def page(self) -> int:
        """How many runs are in sight."""
        return max(1, len(self.runs_in_view))

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the lines in sight."""
        if not self._reports:
            self._owners = []
            said = Content(self._nothing[0]), text((self._nothing[1], DIM))
            return [EMPTY, *(text(" " * MARGIN, cut(line, width - MARGIN)) for line in said)]
        headed = height >= HEADED
        height -= headed
        room = height - len(self._titles)
        about = (room, width, self._standing)
        heights = self._shares.of(self._reports, 0.0, about, partial(self._given, *about))
        self._top = 0 if heights else self._first_in_sight(height, width)
        seen = self._reports[self._top : self._top + height]
        widths = partial(columns, seen, self._now, width)
        shared = self._shared.of(seen, self._now, width, widths)
        lines = [text(" " * MARGIN, paint_heading(shared))] if headed else []
        former, self._kept = self._kept, {}
        self._owners = [""] * len(lines)
        for place in range(self._top, len(self._reports)):
            high = heights[place] if heights else height_of(self._reports[place], width)
            words = self._titles.get(place)
            title = [] if words is None else [group_line(words, width)]
            if place > self._top and len(lines) + len(title) + high > height + headed:
                break
            painted = self._row(place, width, shared, high, former)
            lines += [*title, *painted]
            self._owners += [*([""] * len(title)), *([self._reports[place].name] * len(painted))]
        hidden = len(self._reports) - len({each for each in self._owners if each})
        if hidden and len(lines) < height + headed:
            lines.append(text((f"    … {hidden} more of {len(self._reports)}", DIM)))
        return lines

    def _given(self, room: int, width: int, standing: int) -> list[int]:
        """Return how many lines each run gets: as many as before while they hold what it needs."""
        about, heights = self._heights
        needs = (height_of(each, width) for each in self._reports)
        same = about == (room, width, standing) and len(heights) == len(self._reports)
        if not same or any(need > high for need, high in zip(needs, heights, strict=True)):
            heights = shares(self._reports, room, width)
        self._heights = (room, width, standing), heights
        return heights

    def _row(
        self, place: int, width: int, shared: ListColumns, high: int, former: dict[str, Kept]
    ) -> list[Content]:
        """Return a run's lines, the same ones as long as nothing that they show has changed."""
        report = self._reports[place]
        marks = Marks(place == self._selected, report.name in self._liked)
        paint = partial(paint_row, report, self._now, width, shared, marks, high)
        about = (width, shared, marks, high)
        row = kept(report, self._now, about, paint, former.get(report.name))
        self._kept[report.name] = row
        return row.lines

    def _first_in_sight(self, height: int, width: int) -> int:
        """Return the first run to show: as before, moved just enough to hold the selected one."""
        top = min(self._selected, len(self._reports) - 1)
        former, room = max(0, min(self._top, top)), height - self._needs(top, width)
        while top > former and room >= (needs := self._needs(top - 1, width)):
            room -= needs
            top -= 1
        return top

    def _needs(self, place: int, width: int) -> int:
        return (place in self._titles) + height_of(self._reports[place], width)

    def on_click(self, event: events.Click) -> None:
        """Tell which run was clicked."""
        if event.y < len(self._owners) and self._owners[event.y]:
            self.post_message(RunClicked(self._owners[event.y]))


class Marks(NamedTuple):
    """Whether a run is the selected one, and whether it is a favourite."""

    selected: bool = False
    liked: bool = False


PLAIN: Final = Marks()


class Reckoned(Generic[T]):
    """What is reckoned of many reports: anew only when these, their ages or ``about`` change."""

    def __init__(self) -> None:
        self._reports: Sequence[RunReport] = ()
        self._about: object = None
        self._begin = self._end = 0.0
        self._of_look = False
        self._found: T | None = None

    def of(
        self, reports: Sequence[RunReport], now: float, about: object, reckon: Callable[[], T]
    ) -> T:
        """Return what ``reckon`` returns for these reports at a moment."""
        same = alike(reports, self._reports, self._of_look) and about == self._about
        timely = now == self._begin or self._begin <= now < self._end
        if self._found is None or not same or not timely:
            self._reports, self._about = tuple(reports), about
            with text_lifetime() as words:
                self._found = reckon()
            self._begin, self._end, self._of_look = now, now + words.seconds, words.of_look
        return self._found


def titles_of(groups: Groups) -> dict[int, str]:
    """Return each group's title by the place of its first run."""
    titles, at = {}, 0
    for words, count in groups:
        titles[at] = words
        at += count
    return titles


def height_of(report: RunReport, width: int) -> int:
    """Return how many lines a run takes at least: with what is wrong and what to do, whole."""
    if not report.alerts and report.verdict in (Verdict.HEALTHY, Verdict.SEALED):
        return 1
    act = lines_of(Content(rows.next_words(report, brief=True)), width - INDENT - 2, 2)
    return 1 + min(1, len(report.alerts)) + act


def shares(reports: Sequence[RunReport], height: int, width: int) -> list[int]:
    """Return how many lines each run gets where all fit, else nothing.

    What is left goes round, a line each, the first ones first: to those that have more to say.
    """
    if len(reports) > height:
        return []
    heights = [height_of(each, width) for each in reports]
    left = height - sum(heights)
    if left < 0:
        return []
    bodies = [Body(each, 0.0, width - INDENT) for each in reports] if left else []
    most = [1 + body.there_are(_wishes(each)) for body, each in zip(bodies, reports, strict=False)]
    while left:
        wanting = [at for at, there in enumerate(most) if heights[at] < there]
        if not wanting:
            break
        for at in wanting[:left]:
            heights[at] += 1
            left -= 1
    return heights


def _wishes(report: RunReport) -> Wishes:
    return _SICK if needs_person(report) else _WELL


def paint_row(
    report: RunReport,
    now: float,
    width: int,
    shared: ListColumns,
    marks: Marks = PLAIN,
    high: int = 1,
) -> list[Content]:
    """Return a run's ``high`` lines: the figures, then what is wrong, what to do, and more.

    The selected one has a bar at its left that is seen without any colour.
    """
    body = Body(report, now, max(1, width - INDENT), worded=True).lines(high - 1, _wishes(report))
    indent = " " * (INDENT - 1)
    mark, style = facts.verdict_mark(report)
    liked = (glyph("liked"), ACCENT) if marks.liked else " "
    first = text((mark, style), liked, paint_columns(report, now, shared))
    lines = [first, *(text(indent, line) for line in body)]
    bar = (glyph("bar"), ACCENT) if marks.selected else " "
    shown = [fit(text(bar, line), width) for line in lines]
    return [line.stylize_before("on $cursor") for line in shown] if marks.selected else shown


SlotT = TypeVar("SlotT", bound=Widget)


class GroupTitle(Painted):
    """The line above the panels of a group."""

    def __init__(self) -> None:
        super().__init__()
        self._words = ""

    def show(self, words: str) -> None:
        """Show a group's name and how many it holds."""
        self._words = words
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the line."""
        return [group_line(self._words, width)]


class _Tiles(Layout):
    """Puts each widget where the grid says."""

    name = "tiles"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """Return the places; a widget that has none is not shown."""
        assert isinstance(parent, PanelGrid)
        placed = [(child, parent.places[child]) for child in children if child in parent.places]
        return [WidgetPlacement(Region(*at), Offset(), Spacing(), child) for child, at in placed]


class PanelGrid(Container):
    """Slots for panels; a change of order moves reports between slots, not widgets."""

    DEFAULT_CSS = """
    PanelGrid { height: 1fr; padding: 0 1; }
    """

    def __init__(self, slots: int = 0) -> None:
        super().__init__()
        self._slots = slots
        self.places: dict[Widget, Tile] = {}
        self._layout = _Tiles()

    @property
    def layout(self) -> Layout:
        """What puts the panels where they stand; no rule of a stylesheet can name it."""
        return self._layout

    def compose(self) -> ComposeResult:
        """Make the slots that are known to be needed, so that they are in the first frame."""
        yield from (RunPanel() for _ in range(self._slots))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the empty ground below the panels: one line, rendered once."""
        return super().render_lines(crop.crop_size((crop.width, 1))) * crop.height

    def show(
        self,
        reports: Sequence[RunReport],
        now: float,
        selected: int,
        tiling: Tiling,
        liked: frozenset[str] = frozenset(),
    ) -> None:
        """Show all runs where the tiling has them, the selected and the liked ones marked."""
        panels = self._slots_for(RunPanel, len(reports))
        titles = self._slots_for(GroupTitle, len(tiling.titles))
        width = max((tile.x + tile.width for tile in tiling.tiles), default=0)
        places: dict[Widget, Tile] = dict(zip(panels, tiling.tiles, strict=False))
        headed = list(zip(titles, tiling.titles, strict=False))
        places |= {slot: Tile(0, title.y, width, 1) for slot, title in headed}
        if places != self.places:
            self.places = places
            for slot in places:  # what a slot asks for clears what the grid has kept of the old
                slot.refresh(layout=True)
        for at, panel in enumerate(panels):
            report = reports[at] if at < len(reports) else None
            panel.show(report, now, at == selected, report is not None and report.name in liked)
        for slot, title in headed:
            slot.show(title.words)

    def aged(self, now: float) -> bool:
        """Return whether an age in a panel may read otherwise by now."""
        return any(slot.aged(now) for slot in self.places if isinstance(slot, RunPanel))

    def _slots_for(self, kind: type[SlotT], count: int) -> list[SlotT]:
        """Return the slots of a kind, ``count`` of them shown; new ones are made where needed."""
        slots = list(self.query(kind))
        if len(slots) < count:
            more = [kind() for _ in range(count - len(slots))]
            self.mount_all(more)
            slots += more
        for at, slot in enumerate(slots):
            slot.display = at < count
        return slots
