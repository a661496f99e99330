"""Where a logbook entry is typed: plain text, whole characters, nothing foreign raw."""

from __future__ import annotations

import unicodedata
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from screens.base import acted

_BY_THE_SCREEN: Final = ("undo", "redo", "cursor_page_up", "cursor_page_down")
"""What a text area does whose keys stand in the cockpit's own table."""


class EntryArea(TextArea, inherit_bindings=False):
    """Plain text as a person writes it; nothing foreign gets in raw, nothing blinks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        each
        for each in TextArea.BINDINGS
        if not (isinstance(each, Binding) and each.action in _BY_THE_SCREEN)
    ]

    DEFAULT_CSS = """
    EntryArea, EntryArea:focus {
        height: 1fr; border: none; padding: 0 2; background: $background; color: $ink;
    }
    EntryArea .text-area--cursor-line { background: $background; }
    EntryArea .text-area--cursor, EntryArea:light .text-area--cursor {
        background: $ink; color: $background;
    }
    EntryArea .text-area--selection { background: $cursor; }
    """

    def __init__(self) -> None:
        super().__init__("", soft_wrap=True, show_line_numbers=False)
        self.cursor_blink = False
        self.highlight_cursor_line = False

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "tab" and not self.read_only:
            event.stop()
            event.prevent_default()
            self.insert("  ")
        elif event.key != "enter":
            await acted(self, event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = typed(event.text)

    def get_cursor_left_location(self) -> tuple[int, int]:
        """Step over a whole character: never between a letter and its accents."""
        row, column = super().get_cursor_left_location()
        line = self.document.get_line(row)
        while 0 < column < len(line) and _joins(line[column]):
            column -= 1
        return row, column

    def get_cursor_right_location(self) -> tuple[int, int]:
        """Step over a whole character: never between a letter and its accents."""
        row, column = super().get_cursor_right_location()
        line = self.document.get_line(row)
        while 0 < column < len(line) and _joins(line[column]):
            column += 1
        return row, column

    def _refresh_size(self) -> None:
        """Bring the cursor back inside first: undoing, Textual scrolls to where it stood.

        It puts it right only afterwards, and text that has become shorter has no such line.
        """
        self.selection = self._validate_selection(self.selection)
        super()._refresh_size()


def _joins(character: str) -> bool:
    """Return whether a character belongs to the one before it: an accent, a skin tone."""
    return (
        unicodedata.category(character) in ("Mn", "Me") or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def typed(words: str) -> str:
    """Return text without what no keyboard types: escape sequences and their like."""
    lines = words.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("".join(c for c in line if c == "\t" or c.isprintable()) for line in lines)
