"""The base of everything that opens over a screen: a box in the middle, sized by what it holds."""

from __future__ import annotations

from typing import Final, TypeVar

from textual import events
from textual.containers import Container
from textual.screen import ModalScreen
from textual.widgets import Input

from cockpit.text.safe import clean
from screens.base import acted

R = TypeVar("R")
WIDEST: Final = 112
AROUND: Final = 24
"""Columns that must be left beside a box, else it takes the whole width."""


class Box(Container):
    """What a dialog is drawn in; its inputs lie on a layer above the painted page."""

    DEFAULT_CSS = """
    Box { layers: page typed; background: $background; color: $ink; width: 80; height: 20; }
    Box Paged { layer: page; width: 100%; height: 100%; }
    Box Input, Box Input:focus {
        layer: typed; position: absolute; height: 1; border: none; padding: 0;
        background: $background; color: $ink;
    }
    Box Input:focus { background: $cursor; }
    """


class Line(Input):
    """One line to type in: still, without styles of its own, and nothing foreign gets in raw."""

    def __init__(self, value: str = "", *, name: str | None = None) -> None:
        super().__init__(clean(value), name=name, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)

    def insert_text_at_cursor(self, text: str) -> None:
        """Insert text without its control characters."""
        super().insert_text_at_cursor("".join(each for each in text if each.isprintable()))

    def place(self, x: int, y: int, width: int) -> None:
        """Lie at a place of the box."""
        self.styles.offset = (x, y)
        self.styles.width = max(4, width)


class Dialog(ModalScreen[R], inherit_bindings=False):
    """A box over the screen; its keys are the only ones that work."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    """

    def show(self) -> None:
        """Show the newest reports, where the dialog is about them; called as for any screen."""

    def box_size(self, wanted: int) -> tuple[int, int]:
        """Return the box's (width, height) for ``wanted`` rows on this terminal."""
        width, height = self.app.size
        wide = width if width < WIDEST + AROUND else WIDEST
        return wide, max(3, min(wanted, height if height <= 30 else height - 4))

    @property
    def inner(self) -> int:
        """The width of the box."""
        return self.box_size(6)[0]

    def fit_box(self, wanted: int) -> tuple[int, int]:
        """Give the box its size and return it."""
        width, height = self.box_size(wanted)
        box = self.query_one(Box)
        box.styles.width, box.styles.height = width, height
        return width, height
