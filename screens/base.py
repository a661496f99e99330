"""What all screens share: a key line, a way to be told of news, nothing that takes the focus."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Input

from screens.ports import Cockpit
from widgets.key_line import KeyLine


class CockpitScreen(Screen[str | None], inherit_bindings=False):
    """A screen that is told when to show what is new; it asks the cockpit for it."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    CockpitScreen { layout: vertical; background: $background; color: $ink; }
    CockpitScreen Input, CockpitScreen Input:focus {
        height: 1; border: none; padding: 0 1; background: $background; color: $ink;
    }
    """

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self.cockpit = cockpit

    def show(self) -> None:
        """Show the newest reports; called for news and once in a while for the ages."""
        raise NotImplementedError

    def footer(self) -> list[tuple[str, str]]:
        """Return (key, title) of what matters here."""
        raise NotImplementedError

    @property
    def selected(self) -> str | None:
        """The run that a command without a name is about."""
        return None

    def show_keys(self) -> None:
        """Show the footer."""
        self.query_one(KeyLine).show(self.footer(), self.cockpit.notice)

    def on_mount(self) -> None:
        """Show what is known before the first frame."""
        self.show()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.show()

    def on_screen_resume(self) -> None:
        """Show what came in while another screen was on top."""
        self.show()


class Prompt(Input):
    """A one-line prompt in the last line; its cursor does not blink."""

    DEFAULT_CSS = """
    Prompt { display: none; }
    Prompt.-open { display: block; }
    """

    def __init__(self, label: str) -> None:
        super().__init__(placeholder=label, compact=True, select_on_focus=False)
        self.cursor_blink = False

    @property
    def is_open(self) -> bool:
        """True while a person types here."""
        return self.has_class("-open")

    def ask(self, value: str = "") -> None:
        """Open with ``value``, the cursor behind it."""
        self.value = value
        self.cursor_position = len(value)
        self.add_class("-open")
        self.focus(scroll_visible=False)

    def close(self) -> None:
        """Close; the value stays."""
        self.remove_class("-open")
        self.blur()
