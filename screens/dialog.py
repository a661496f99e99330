"""What opens over a screen: a box in the middle, sized by what it holds; and who may leave now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from cockpit.text.safe import clean
from screens.base import KeyedModal, acted, pressed_at
from screens.keys import bindings
from widgets.painting.line import ACCENT, DIM, STRONG, text, wrapped
from widgets.scrolled import Paged, Sheet

R = TypeVar("R")
READ_AFTER: Final = 0.3
"""Seconds for which a question must have been visible before an answer counts."""
WIDEST: Final = 112
AROUND: Final = 24
"""Columns that must be left beside a box, else it takes the whole width."""


class DialogBox(Container):
    """What a dialog is drawn in; its inputs lie on a layer above the painted page."""

    DEFAULT_CSS = """
    DialogBox { layers: page typed; background: $background; color: $ink; width: 80; height: 20; }
    DialogBox Paged { layer: page; width: 100%; height: 100%; }
    DialogBox Input, DialogBox Input:focus {
        layer: typed; position: absolute; height: 1; border: none; padding: 0;
        background: $background; color: $ink;
    }
    DialogBox Input:focus { background: $cursor; }
    """


class TextLine(Input):
    """One line to type in: still, without styles of its own, and nothing foreign gets in raw."""

    def __init__(self, value: str = "", *, name: str | None = None) -> None:
        super().__init__(clean(value), name=name, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)

    def replace(self, text: str, start: int, end: int) -> None:
        """Put text, without its control characters, where another was, or none.

        Whatever is typed or pasted comes through here, over a selection as well.
        """
        super().replace("".join(each for each in text if each.isprintable()), start, end)

    def place(self, x: int, y: int, width: int) -> None:
        """Lie at a place of the box."""
        self.styles.offset = (x, y)
        self.styles.width = max(4, width)


class Dialog(KeyedModal[R], inherit_bindings=False):
    """A box over the screen; its keys are the only ones that work."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    """

    def lay_out(self) -> None:
        """Show the dialog as it stands, for the size that the terminal has."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.lay_out()

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
        box = self.query_one(DialogBox)
        box.styles.width, box.styles.height = width, height
        return width, height


class LeavingScreen(Dialog[bool]):
    """Returns whether to leave all the same."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("leaving")

    def __init__(self, under_way: Sequence[str]) -> None:
        super().__init__()
        self._under_way = tuple(under_way)
        self._read_from: float | None = None

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with DialogBox():
            yield Paged()

    def on_mount(self) -> None:
        """Say what is under way; an answer counts once that could be read."""
        self.lay_out()
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        self._read_from = Message().time + READ_AFTER

    def lay_out(self) -> None:
        """Show what is under way, and the keys."""
        if not self.is_mounted:
            return
        page = self.query_one(Paged)
        foot = [text(("q", f"bold {ACCENT}"), (" leaves now   ", DIM), ("esc", f"bold {ACCENT}"),
                     (" stays", DIM))]  # fmt: skip
        title = text(("an action is under way", STRONG))
        page.show(Sheet(partial(_body, self._under_way), title, foot=foot, line="$attention"))
        self.fit_box(len(page.lines_for(self.inner)) + 4)

    def action_leave_now(self) -> None:
        """Leave: not for a key that was pressed twice before anything could be read."""
        if self._read_from is not None and pressed_at(self) >= self._read_from:
            self.dismiss(True)

    def action_leave_not(self) -> None:
        """Stay."""
        self.dismiss(False)


def _body(under_way: Sequence[str], width: int) -> list[Content]:
    names = [text(("● ", ACCENT), (name, STRONG)) for name in under_way]
    said = (
        "Quitting now may interrupt a step. Nothing is retried automatically: the journal "
        "says how far it got, and the next start looks up what is unknown."
    )
    return [*names, *wrapped(Content(said), width, 6)]
