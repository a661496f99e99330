"""All keys that work, made from the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from screens.base import KeyedModal
from screens.hotkeys import ACTIONS, WHERES
from screens.keys import Keys, shown
from widgets.base.scrolled import Scrolled
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, fit, text

Section = tuple[str, Sequence[tuple[str, str, str]]]
"""A title, and (keys, what it is, what it does) of each line."""


class _HelpView(Scrolled):
    def __init__(self, sections: list[Section]) -> None:
        super().__init__()
        self._sections = sections

    def body(self, width: int) -> list[Content]:
        return paint_help(self._sections, width)

    def title(self) -> Content:
        return text(("keys", STRONG))

    def note(self) -> Content:
        return text(("esc closes", DIM))


def sections(keys: Keys, wheres: tuple[str, ...]) -> list[Section]:
    """Return the help's sections: what works here first, then the rest."""
    order = [*wheres, *(where for where in WHERES if where not in wheres)]
    return [
        (
            WHERES[where],
            [
                (" ".join(shown(key) for key in keys.of(each.id)), each.title, each.help)
                for each in ACTIONS
                if each.where == where
            ],
        )
        for where in order
    ]


class HelpScreen(KeyedModal[None], inherit_bindings=False):
    """A page over the screen; the same key that opened it closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,enter,q", "close", "close"),
        Binding("down,j", "move(1)", "down"),
        Binding("up,k", "move(-1)", "up"),
        Binding("pagedown,space,ctrl+d", "page(1)", "page down"),
        Binding("pageup,ctrl+u", "page(-1)", "page up"),
        Binding("home,g", "edge(False)", "start"),
        Binding("end,G", "edge(True)", "end"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background; }
    HelpScreen _HelpView { max-width: 104; background: $background; color: $ink; }
    """

    def __init__(self, keys: Keys, wheres: tuple[str, ...]) -> None:
        super().__init__()
        self._view = _HelpView(sections(keys, wheres))

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        yield self._view

    def action_close(self) -> None:
        """Close."""
        self.dismiss()

    def action_move(self, steps: int) -> None:
        """Step."""
        self._view.move(steps)

    def action_page(self, pages: int) -> None:
        """Turn the page."""
        self._view.page(pages)

    def action_edge(self, end: bool) -> None:
        """Go to the start or the end."""
        self._view.edge(end)


def paint_help(sections: Sequence[Section], width: int) -> list[Content]:
    """Return the lines of a help screen; sections are separated by a blank line."""
    rows = [row for _, rows in sections for row in rows]
    keys = max((Content(key).cell_length for key, _, _ in rows), default=4) + 2
    titles = max((Content(title).cell_length for _, title, _ in rows), default=4) + 2
    lines: list[Content] = []
    for title, entries in sections:
        lines += [EMPTY] if lines else []
        lines.append(text((title, "bold")))
        lines += [_entry(entry, keys, titles, width) for entry in entries]
    return lines


def _entry(entry: tuple[str, str, str], keys: int, titles: int, width: int) -> Content:
    key, title, does = entry
    left = text(" ", fit(text((key, f"bold {ACCENT}")), keys), fit(Content(title), titles))
    return cut(text(left, (does, DIM)), width)
