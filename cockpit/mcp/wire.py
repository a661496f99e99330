"""Standard input and output for the protocol alone, read and written in threads of their own.

The SDK's own streams wait for a line that is being read before they leave, however long that takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import BinaryIO, Final

from cockpit.runtime.outlet import Outlet

MOST: Final = 1 << 20
"""Bytes of a line that are taken; the beginning of a longer one is no message."""
AHEAD: Final = 64
"""Messages that are read before the first of them is taken."""


class Output:
    """Writes messages to the client; what it does not take in time is not queued without end."""

    def __init__(self, fd: int) -> None:
        self.broken = False
        self._outlet = Outlet(fd, self._break, self._break)

    async def write(self, line: str) -> None:
        """Have a message written soon; raises ``OSError`` where the client has gone or hung."""
        self._outlet.put(line.encode())
        if self.broken:
            raise BrokenPipeError

    async def flush(self) -> None:
        """Do nothing: what is written is flushed by itself."""

    def close(self, within: float) -> None:
        """Write what is left, for at most ``within`` seconds. Blocking."""
        self._outlet.end(within)

    def _break(self, why: object) -> None:
        self.broken = True


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


def protocol_streams() -> tuple[BinaryIO, int]:
    """Return standard input and output for the protocol alone.

    Whatever else would be printed, by anything in this process or started by it, goes to stderr.
    """
    sys.stdout.flush()
    own_out, own_in = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return os.fdopen(own_in, "rb"), own_out
