"""Standard input and output for the protocol alone, read and written in threads of their own.

The SDK's own streams wait for a line that is being read before they leave, however long that takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from queue import Full, Queue
from typing import BinaryIO, Final

MOST: Final = 1 << 20
"""Bytes of a line that are taken; the beginning of a longer one is no message."""
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

    async def write(self, line: str) -> None:
        """Have a message written soon; raises ``OSError`` where the client has gone or hangs."""
        try:
            self._queue.put_nowait(line.encode())
        except Full:
            self.broken = True
        if self.broken:
            raise BrokenPipeError

    async def flush(self) -> None:
        """Do nothing: what is written is flushed by itself."""

    def close(self, within: float) -> None:
        """Write what is left, for at most ``within`` seconds. Blocking."""
        try:
            self._queue.put(None, timeout=within)
            self._thread.join(within)
        except Full:
            return

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                self.broken = True
                return


class Input:
    """The client's lines, as they come."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="mcp input", daemon=True).start()

    def __aiter__(self) -> Input:
        """Return itself."""
        return self

    async def __anext__(self) -> str:
        """Return the next line; what has no line break at the end of the input is no message."""
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

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
