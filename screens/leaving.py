"""Asked once by whoever leaves while an action is under way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from screens.dialog import Box, Dialog
from screens.keys import bindings
from widgets.line import ACCENT, DIM, STRONG, text, wrapped
from widgets.paged import Paged, Sheet


class LeavingScreen(Dialog[bool]):
    """Returns whether to leave all the same."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("leaving")

    def __init__(self, under_way: Sequence[str]) -> None:
        super().__init__()
        self._under_way = tuple(under_way)

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with Box():
            yield Paged()

    def on_mount(self) -> None:
        """Say what is under way."""
        self._show()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._show()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        page = self.query_one(Paged)
        foot = [text(("q", f"bold {ACCENT}"), (" leaves now   ", DIM), ("esc", f"bold {ACCENT}"),
                     (" stays", DIM))]  # fmt: skip
        title = text(("an action is under way", STRONG))
        page.show(Sheet(partial(_body, self._under_way), title, foot=foot, line="$attention"))
        self.fit_box(len(page.lines_for(self.inner)) + 4)

    def action_leave_now(self) -> None:
        """Leave."""
        self.dismiss(True)

    def action_leave_not(self) -> None:
        """Stay."""
        self.dismiss(False)


def _body(under_way: Sequence[str], width: int) -> list[Content]:
    names = [text(("● ", ACCENT), (name, STRONG)) for name in under_way]
    said = (
        "Leaving now stops it between or within its steps. Nothing is repeated: the journal "
        "tells how far it came, and the next start looks up what is not known."
    )
    return [*names, *wrapped(Content(said), width, 6)]
