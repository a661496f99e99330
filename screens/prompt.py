"""A line to type in, at the foot of a screen: loaded when somebody wants to type."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from screens.base import acted


class Prompt(Input):
    """A one-line prompt in the last line; its cursor does not blink."""

    DEFAULT_CSS = """
    Prompt { display: none; }
    Prompt.-open { display: block; }
    """

    def __init__(self, label: str) -> None:
        super().__init__(placeholder=label, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)

    @property
    def is_open(self) -> bool:
        """True while a person types here."""
        return self.has_class("-open")

    def ask(self, value: str = "") -> None:
        """Open with ``value``, the cursor behind it."""
        self.value = value
        self.cursor_position = len(value)
        self.add_class("-open")
        self.display = True
        self.screen.set_focus(self, scroll_visible=False)

    def close(self) -> None:
        """Close; the value stays."""
        self.remove_class("-open")
        self.display = False
        self.screen.set_focus(None)
