"""What the last line of a screen says for a while: replies, and warnings."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from cockpit.app.colours import ThemedApp

NOTICE: Final = 10.0
WARNING: Final = 60.0
"""Seconds for which a reply, and a warning, stand in the last line."""


class NoticeApp(ThemedApp):
    """An app that says something in its last line: ``said`` the reply, ``warned`` the warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""
        self.warned: list[str] = []

    @abstractmethod
    def repaint_footer(self) -> None:
        """Paint the last line anew."""

    def say(self, words: str) -> None:
        """Show one line in the footer for a while."""

        def unsay() -> None:
            if self.said == words:
                self.said = ""
                self.repaint_footer()

        self.said = words
        self.repaint_footer()
        self.set_timer(NOTICE, unsay)

    def warn(self, words: str) -> None:
        """Show one line for a while, whatever else is said meanwhile."""

        def unsay() -> None:
            if words in self.warned:
                self.warned.remove(words)
                self.repaint_footer()

        self.warned = [*(each for each in self.warned if each != words), words]
        self.repaint_footer()
        self.set_timer(WARNING, unsay)
