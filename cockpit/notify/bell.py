"""The terminal's own ways to call a person: the bell, and OSC 9 where the terminal knows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from cockpit.notify.message import Message, cut
from cockpit.text.safe import clean

Ring = Callable[[str], None]
"""Writes a control sequence to the terminal that a person looks at."""

BELL: Final = "\a"
LIMIT: Final = 200
_PLAIN: Final = ("", "dumb", "linux", "unknown")


def sequence(message: Message, environ: Mapping[str, str]) -> str:
    """Return what makes the terminal ring and, where it can, show the title.

    Inside tmux OSC 9 is wrapped to pass through (``allow-passthrough``); the bell needs no leave.
    The text begins with a word: a number there would be read as another command.
    """
    if environ.get("TERM", "") in _PLAIN or "STY" in environ:
        return BELL
    told = f"\x1b]9;cockpit: {cut(clean(message.title), LIMIT)}\x1b\\"
    if environ.get("TMUX"):
        told = "\x1bPtmux;" + told.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return BELL + told


def terminal_of_this_process() -> Ring | None:
    """Return how to ring the terminal that standard error or output shows; ``None`` without."""
    for stream in (sys.stderr, sys.stdout):
        if stream is not None and _shows(stream):
            return _writer(stream)
    return None


def _shows(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _writer(stream: TextIO) -> Ring:
    def ring(text: str) -> None:
        os.write(stream.fileno(), text.encode("utf-8", "replace"))

    return ring
