"""Standard input and output as the protocol needs them: nothing else ever gets onto the output.

Threads read and write, so that it does not matter whether they are pipes, files or terminals,
and a client that stops reading, or goes, holds up nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from queue import Empty, Full, Queue
from typing import BinaryIO, Final

from cockpit.mcp.wire import MOST

AHEAD: Final = 64
"""Messages that are read before the first of them is taken."""
BEHIND: Final = 1_000
"""Messages that wait to be written; a client that reads none of so many has hung."""


class Output:
    """Writes messages to the client in a thread of its own."""

    def __init__(self, stream: BinaryIO) -> None:
        self.broken = False
        self._stream = stream
        self._queue: Queue[bytes | None] = Queue(BEHIND)
        self._thread = threading.Thread(target=self._write, name="mcp output", daemon=True)
        self._thread.start()

    def send(self, line: bytes) -> None:
        """Have a message written soon; one too many ends the connection."""
        try:
            self._queue.put_nowait(line)
        except Full:
            self.broken = True

    def close(self, within: float) -> None:
        """Write what is left, for at most ``within`` seconds. Blocking."""
        try:
            self._queue.put(None, timeout=within)
            self._thread.join(within)
        except Full:
            return

    def _write(self) -> None:
        while True:
            line = self._queue.get()
            if line is None:
                return
            try:
                self._stream.write(line)
                while line is not None and not self._queue.empty():
                    line = self._next()
                    self._stream.write(line or b"")
                self._stream.flush()
            except (OSError, ValueError):
                self.broken = True
                return
            if line is None:
                return

    def _next(self) -> bytes | None:
        try:
            return self._queue.get_nowait()
        except Empty:
            return b""


class Input:
    """The client's lines, as they come; ``None`` is the end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="mcp input", daemon=True).start()

    async def line(self) -> bytes | None:
        """Return the next line with its line break, or more than is taken of one too long.

        What has no line break at the end of the input is no message.
        """
        return await self._lines.get()

    def _read(self) -> None:
        try:
            while line := self._stream.readline(MOST + 1):
                if not line.endswith(b"\n") and not self._skipped(len(line) > MOST):
                    break
                self._put(line)
        except (OSError, ValueError):
            pass
        self._put(None)

    def _skipped(self, long: bool) -> bool:
        """Read on to the end of a line that is too long; return whether there was one."""
        while long:
            more = self._stream.readline(MOST)
            if not more or more.endswith(b"\n"):
                return bool(more)
        return False

    def _put(self, line: bytes | None) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):
            return  # the loop has ended


def protocol_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the protocol alone.

    Whatever else would be printed, by anything in this process or started by it, goes to stderr.
    """
    sys.stdout.flush()
    own_out, own_in = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return os.fdopen(own_in, "rb"), os.fdopen(own_out, "wb")
