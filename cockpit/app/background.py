"""Whether the terminal's background is light or dark: asked of it, never guessed from its name.

The question (OSC 11) goes out before the first frame and nobody waits for the answer, which comes
among the keys: it is taken out of them, whole or in parts, and never shown as typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from textual.constants import ESCAPE_DELAY
from textual.message import Message

from cockpit.app.output.stage import in_gnu_screen
from cockpit.model.late_regex import late_regex

QUESTION: Final = "\x1b]11;?\x1b\\"
WITHIN: Final = 3.0
"""Seconds after the question in which the first bytes of an answer are told from keys."""
HELD: Final = ESCAPE_DELAY
"""Seconds for which what may be the beginning of an answer is held back."""
_ANSWER: Final = late_regex(
    r"\x1b\]11;(?:rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})"
    r"(?:/[0-9a-fA-F]{1,4})?|[^\x07\x1b]{0,64})(?:\x07|\x1b\\)"
)
_BEGUN: Final = late_regex(r"\x1b(\](1(1(;[^\x07\x1b]{0,80}\x1b?)?)?)?)?\Z")
_SURE: Final = len("\x1b]1")
"""Characters from which on a beginning is an answer's, at any time: no keys come like that."""
_MUTE: Final = late_regex(r"linux|dumb|unknown|cons25|vt\d+.*")
"""Terminals that would show the question instead of answering it."""


class BackgroundTold(Message):
    """The terminal has said what its background is."""

    def __init__(self, dark: bool) -> None:
        super().__init__()
        self.dark = dark


def may_ask(variables: Mapping[str, str]) -> bool:
    """Return whether this terminal can be asked."""
    return not _MUTE.fullmatch(variables.get("TERM", ""))


def question(variables: Mapping[str, str]) -> str:
    """Return what to write: inside tmux also past it, to the terminal around it.

    GNU screen would write what is meant for tmux on the screen.
    """
    if not may_ask(variables):
        return ""
    if variables.get("TMUX") and not in_gnu_screen(variables):
        return QUESTION + f"\x1bPtmux;{QUESTION.replace(chr(27), chr(27) * 2)}\x1b\\"
    return QUESTION


def dark_by(variables: Mapping[str, str]) -> bool | None:
    """Return what ``COLORFGBG`` says (``15;0``, ``0;default;15``), ``None`` for nothing."""
    last = variables.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdecimal() or int(last) > 15:
        return None
    return int(last) <= 6 or int(last) == 8


class Answers:
    """Takes answers out of what the terminal sends; times are seconds of one clock."""

    def __init__(self, now: float) -> None:
        self._until = now + WITHIN
        self._held = ""
        self._held_at = now

    def apart(self, data: str, now: float) -> Iterator[str | BackgroundTold]:
        """Yield what was typed, and answers, in their order."""
        data, self._held = self._held + data, ""
        at = 0
        for found in _ANSWER.finditer(data):
            if data[at : found.start()]:
                yield data[at : found.start()]
            at = found.end()
            if found[1]:
                yield BackgroundTold(is_dark(*found.groups()))
        rest = data[at:]
        begun = _BEGUN.search(rest)
        if begun is not None and (now < self._until or len(begun[0]) >= _SURE):
            self._held, self._held_at = begun[0], now
            rest = rest[: begun.start()]
        if rest:
            yield rest

    @property
    def held_until(self) -> float | None:
        """When what is held back is no answer any more; ``None`` while nothing is."""
        return self._held_at + HELD if self._held else None

    def late(self, now: float) -> str:
        """Return what was held back and is no answer after all."""
        if not self._held or now < self._held_at + HELD:
            return ""
        held, self._held = self._held, ""
        return held


def is_dark(red: str, green: str, blue: str) -> bool:
    """Return whether a colour (hexadecimal, 1 to 4 digits each) is rather dark than light."""
    parts = [int(each, 16) / float(16 ** len(each) - 1) for each in (red, green, blue)]
    shares = (0.299, 0.587, 0.114)
    return sum(share * part for share, part in zip(shares, parts, strict=True)) < 0.5
