"""The fleet as panels, when all of them fit: each as large as its run needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.strip import Strip
from textual.widget import Widget

from cockpit.model.report import RunReport
from widgets.base.painted import Painted
from widgets.painting.line import group_line
from widgets.painting.tiling import Tile, Tiling
from widgets.run_panel import RunPanel

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
        return [
            WidgetPlacement(
                Region(place.x, place.y, place.width, place.height), Offset(), Spacing(), child
            )
            for child in children
            if (place := parent.places.get(child)) is not None
        ]


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
        places |= {
            slot: Tile(0, title.y, width, 1)
            for slot, title in zip(titles, tiling.titles, strict=False)
        }
        if places != self.places:
            self.places = places
            for slot in places:  # what a slot asks for clears what the grid has kept of the old
                slot.refresh(layout=True)
        for at, panel in enumerate(panels):
            report = reports[at] if at < len(reports) else None
            panel.show(report, now, at == selected, report is not None and report.name in liked)
        for slot, title in zip(titles, tiling.titles, strict=False):
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
