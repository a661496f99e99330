"""When a confirmation counts: never for keys that were typed before it could be read.

Times are those at which the keys were read from the terminal (``Message.time``), so that a
program that was slow for a moment judges no differently. Pure.
"""

from __future__ import annotations

from typing import Final

SETTLED: Final = 0.05
"""Seconds after the question was painted before a character counts."""
VISIBLE: Final = 0.3
"""Seconds for which it must have been visible before Enter counts."""
APART: Final = 0.15
"""Seconds by which Enter must follow the key before it; also what ends a stream of type-ahead."""
TOO_EARLY: Final = "typed before this could be read: dropped"
TOO_FAST: Final = "that came in one burst: look, then press enter"
TOO_SOON: Final = "look first, then press enter"


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
        return f"{left} to go" if typed else "the words must stand here exactly"
    if same is None:
        return f"{len(typed) - len(words)} too many"
    wanted = "a blank" if words[same] == " " else f'"{words[same]}"'
    return f"differs from the {_nth(same + 1)} character on: {wanted} is expected"


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 < number % 100 < 14 else ends.get(number % 10, 'th')}"
