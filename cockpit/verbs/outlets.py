"""What ``watch`` prints: to whoever takes it, and never in the way of the watch."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from cockpit.notify.routes import Ring, terminal_of_this_process
from cockpit.runtime.offload import offload
from cockpit.runtime.outlet import Outlet
from cockpit.text.scrub import scrub
from cockpit.verbs.common import document_text, encoded, output_error, write

STUCK: Final = 2.0
"""Seconds after which a terminal that takes nothing is one that cannot be rung."""


class WatchOutput:
    """Standard output and standard error of a watch; ``ended`` is when nobody reads it any more.

    A stream without a descriptor of its own (a test's) is written directly.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[OSError] = loop.create_future()
        self._messages = _outlet(sys.stderr, self._tell_of_messages)
        self._lines = _outlet(
            sys.stdout,
            self._tell_of_lines,
            lambda error: loop.call_soon_threadsafe(self._end, error),
        )

    def say(self, line: str) -> None:
        """Print a message for a person on standard error."""
        self._put(self._messages, sys.stderr, f"cockpit: {scrub(line)}\n")

    def put(self, text: str) -> None:
        """Print what was asked for, a line, on standard output."""
        self._put(self._lines, sys.stdout, scrub(text) + "\n")

    def document(self, document: dict[str, Any]) -> None:
        """Print one JSON document, a line, on standard output."""
        self._put(self._lines, sys.stdout, document_text(document, one_line=True) + "\n")

    def ring(self) -> Ring | None:
        """Return how to ring the terminal in front of the person; ``None`` without one."""
        if terminal_of_this_process() is None:
            return None
        to_messages = self._messages is not None and sys.stderr.isatty()
        outlet = self._messages if to_messages else self._lines

        def ring(sequence: str) -> bool:
            if outlet is None or outlet.stuck() > STUCK:
                return False
            outlet.put(sequence.encode("utf-8", "replace"))
            return True

        return ring

    async def end(self, within: float) -> None:
        """Wait for what is being printed; say what never was. Raises what ended the output."""
        for outlet, tell in ((self._lines, self._tell_of_lines), (self._messages, None)):
            left = 0 if outlet is None else await offload(outlet.end, within, deadline=within + 1)
            if left and tell is not None:
                tell(left)
        if self.ended.done():
            raise output_error(self.ended.result())

    def _put(self, outlet: Outlet | None, stream: TextIO | None, text: str) -> None:
        if outlet is not None and stream is not None:
            outlet.put(encoded(stream, text))
        else:
            write(stream, text)

    def _end(self, error: OSError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    def _tell_of_lines(self, count: int) -> None:
        self.say(f"{_lines(count)} of standard output dropped: no reader")

    def _tell_of_messages(self, count: int) -> None:
        self.say(f"{_lines(count)} dropped here: no reader")


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


def _outlet(stream: TextIO | None, *calls: Callable[..., object]) -> Outlet | None:
    """Return an outlet to a stream's own descriptor, ``None`` without one."""
    if stream is None:
        return None
    try:
        stream.flush()
        return Outlet(stream.fileno(), *calls)
    except (io.UnsupportedOperation, ValueError):
        return None
