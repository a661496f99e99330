"""When a confirmation counts: never for keys that were typed before it could be read.

Times are those at which the keys were read from the terminal (``Message.time``), so that a
program that was slow for a moment judges no differently. ``WordsLine`` is where they are typed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual import events
from textual.message import Message

from screens.dialog import READ_AFTER, TextLine

SETTLED: Final = 0.05
"""Seconds after the question was painted before a character counts."""
VISIBLE: Final = READ_AFTER
"""Seconds for which it must have been visible before Enter counts."""
APART: Final = 0.15
"""Seconds by which Enter must follow the key before it; also what ends a stream of type-ahead."""
TOO_EARLY: Final = "ignored keys typed before this opened"
TOO_FAST: Final = "that looked pasted; check, then press enter"
TOO_SOON: Final = "look first, then press enter"
NO_PASTE: Final = "paste is ignored: type it"
_PASSED: Final = frozenset({"escape", "f1", "f2", "f3", "f4", "tab", "up", "down", "pageup",
                            "pagedown", "ctrl+c", "ctrl+d", "ctrl+u"})  # fmt: skip


class Arming:
    """Judges keys by their times in seconds; dropped until ``painted`` says that it can be read."""

    def __init__(self) -> None:
        self._painted: float | None = None
        self._last: float | None = None
        self._stream: float | None = None

    def hide(self) -> None:
        """Nothing can be read: drop what is typed."""
        self._painted = None

    def painted(self, at: float) -> None:
        """Know that the question stands on the screen since ``at``."""
        self._painted = at

    @property
    def ready(self) -> bool:
        """True once there is something to read."""
        return self._painted is not None

    def takes(self, at: float) -> bool:
        """Return whether a character typed at ``at`` counts."""
        early = self._painted is None or at < self._painted + SETTLED
        if early or (self._stream is not None and at - self._stream < APART):
            self._stream = self._last = at
            return False
        self._stream, self._last = None, at
        return True

    def refusal(self, at: float) -> str:
        """Return why an Enter pressed at ``at`` does not count, or nothing."""
        last, self._last = self._last, at
        if self._painted is None or at < self._painted + SETTLED:
            self._stream = at
            return TOO_EARLY
        if at < self._painted + VISIBLE:
            return TOO_SOON
        if last is not None and at - last < APART:
            return TOO_FAST
        return ""


def difference(typed: str, words: str) -> str:
    """Return quietly what keeps ``typed`` from being ``words``; nothing once they are equal."""
    if typed == words:
        return ""
    same = next((n for n, (a, b) in enumerate(zip(typed, words, strict=False)) if a != b), None)
    if same is None and len(typed) < len(words):
        left = len(words) - len(typed)
        return f"{left} more" if typed else "type the words above exactly"
    if same is None:
        return f"{len(typed) - len(words)} too many"
    wanted = "a space" if words[same] == " " else f"'{words[same]}'"
    return f"wrong from character {same + 1}: expected {wanted}"


class WordsLine(TextLine):
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
    class Turned(Message):
        """A key that turns the page was pressed: it is the page's, not this line's."""

        pages: int

    @dataclass
    class Dropped(Message):
        """Something that was typed or pasted did not count."""

        why: str

    def __init__(
        self, enter: tuple[str, ...], down: tuple[str, ...] = (), up: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self._enter = enter
        self._turns = {**dict.fromkeys(down, 1), **dict.fromkeys(up, -1)}
        self.arming = Arming()
        self._words = ""

    def ask(self, words: str) -> None:
        """Ask for ``words``: empty it, and count what is typed from the next frame on."""
        self._words = words
        self.arming.hide()
        self.value = ""
        self.add_class("-asked")
        self.focus(scroll_visible=False)
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        if self.has_class("-asked"):
            self.arming.painted(Message().time)

    def _watch_value(self, value: str) -> None:
        """Show the letters that are missing behind what was typed: to be read, never taken."""
        super()._watch_value(value)
        self._suggestion = self._words if self._words.startswith(value) else ""

    def action_cursor_right(self, select: bool = False) -> None:
        """Step over what was typed; the letters behind it are not typed for anybody."""
        if not self.cursor_at_end:
            super().action_cursor_right(select)

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
        elif event.key in self._turns:
            event.stop()
            event.prevent_default()
            self.post_message(self.Turned(self._turns[event.key]))
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
