"""Where the words of a confirmation are typed: no paste, no type-ahead, no burst gets through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual import events
from textual.message import Message

from screens.arming import TOO_EARLY, Arming
from screens.dialog import Line

NO_PASTE: Final = "a paste does not count: type the words"
_PASSED: Final = frozenset({"escape", "f1", "f2", "f3", "up", "down", "pageup", "pagedown",
                            "ctrl+c", "ctrl+d", "ctrl+u"})  # fmt: skip


class WordsLine(Line):
    """Hands on only what a person typed after reading; tells of Enter and of what was dropped."""

    DEFAULT_CSS = """
    WordsLine { display: none; }
    WordsLine.-asked { display: block; }
    """

    @dataclass
    class Entered(Message):
        """Enter was pressed; ``refusal`` is why it does not count, or nothing."""

        refusal: str

    @dataclass
    class Dropped(Message):
        """Something that was typed or pasted did not count."""

        why: str

    def __init__(self, enter: tuple[str, ...]) -> None:
        super().__init__()
        self._enter = enter
        self.arming = Arming()

    def ask(self) -> None:
        """Empty it, and count what is typed from the next frame on."""
        self.arming.hide()
        self.value = ""
        self.add_class("-asked")
        self.focus(scroll_visible=False)
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        if self.has_class("-asked"):
            self.arming.painted(Message().time)

    def hide(self) -> None:
        """Ask for nothing."""
        self.arming.hide()
        self.value = ""
        self.remove_class("-asked")
        self.blur()

    async def _on_key(self, event: events.Key) -> None:
        if event.key in self._enter:
            event.stop()
            event.prevent_default()
            self.post_message(self.Entered(self.arming.refusal(event.time)))
        elif event.key not in _PASSED and not self.arming.takes(event.time):
            event.stop()
            event.prevent_default()
            self.post_message(self.Dropped(TOO_EARLY))

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.post_message(self.Dropped(NO_PASTE))

    def action_paste(self) -> None:
        """Refuse the app's own clipboard too."""
        self.post_message(self.Dropped(NO_PASTE))
