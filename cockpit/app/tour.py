"""The first tour of the demo: five keys, one after the other, each until it was pressed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from screens.hotkeys import BY_ID
from screens.keys import Keys


class Stop(NamedTuple):
    """A key of the tour, by its action id, and what it does."""

    action: str
    text: str


STOPS: Final = (
    Stop("open", "opens the run that needs you most"),
    Stop("jump", "goes to the log lines that its alert rests on"),
    Stop("relaunch", "plans a relaunch; only its typed words start it, esc leaves"),
    Stop("help", "lists the keys that work here"),
    Stop("palette", "finds any command or run by a few letters"),
)


class Tour:
    """Which keys were pressed so far; the line to show says the next that works here."""

    def __init__(self) -> None:
        self._left = list(STOPS)

    def pressed(self, action: object) -> bool:
        """Take what a key ran; return whether the tour goes on by it."""
        left = [each for each in self._left if BY_ID[each.action].run != action]
        self._left, former = left, self._left
        return left != former

    def line(self, keys: Keys, scopes: Collection[str]) -> str:
        """Return what to press next on a screen with these scopes; nothing once all was."""
        for each in self._left:
            if BY_ID[each.action].where in scopes:
                number = len(STOPS) - len(self._left) + 1
                return f"tour {number}/{len(STOPS)}: {keys.shown(each.action)} {each.text}"
        return ""
