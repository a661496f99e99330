"""What is pressed, read as it comes: the thread that reads sleeps until there is something.

Textual's own looks ten times a second whether it shall end; that alone is more than a cockpit may
cost whose runs stand still.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event
from typing import Final

from textual._parser import ParseError
from textual.message import Message

from cockpit.app.alt import KeyParser

LOOK_AGAIN: Final = 0.1
"""Seconds between two looks at an input that has ended."""
_CHUNK: Final = 4096


class EndOfInput(Event):
    """An event that also wakes who waits for a descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptor, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def set(self) -> None:
        """Set it, and let ``descriptor`` be readable."""
        super().set()
        with suppress(BlockingIOError):
            os.write(self._bell, b"\0")

    def clear(self) -> None:
        """Take it back."""
        super().clear()
        while select.select([self.descriptor], [], [], 0)[0]:
            os.read(self.descriptor, _CHUNK)


def read_keys(
    terminal: int, end: EndOfInput, parser: KeyParser, take: Callable[[Message], object]
) -> None:
    """Hand what is typed to ``take`` until ``end`` is set; what came before that is taken too.

    Raises ``OSError`` when the terminal has gone.
    """
    decode = getincrementaldecoder("utf-8")("replace").decode

    def taken(messages: Iterable[Message]) -> None:
        for message in messages:
            take(message)

    try:
        ending = False
        while not ending:
            ending = end.is_set()
            patience = 0.0 if ending else parser.patience()
            ready, _, _ = select.select([terminal, end.descriptor], [], [], patience)
            if terminal in ready:
                typed = decode(os.read(terminal, _CHUNK), final=ending)
                if not typed and not ending:
                    end.wait(LOOK_AGAIN)  # nothing comes from where it has ended
                taken(parser.feed(typed) if typed else ())
            taken(parser.tick())
    finally:
        with suppress(EOFError, ParseError):
            taken(parser.feed(""))
