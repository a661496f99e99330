"""Output that nobody may take: a stopped terminal, a full pipe, a line that hangs.

Lines are written from a thread of their own, so that the event loop never waits for a reader.
What does not fit in the queue is dropped, the oldest line first; how much it was is said as soon as
something is taken again. A line is written as a whole or not at all: into a pipe only when it has
room for all of it (on Linux the pipe is made larger for a line that is longer than it).
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import struct
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

LINES: Final = 256
BYTES: Final = 1 << 22
"""Lines and bytes that wait at most; the newest line always does."""
LOOK: Final = 0.05
"""Seconds between two looks at whether a pipe has room for a long line."""
_WHOLE: Final = select.PIPE_BUF
"""Bytes that fit whenever a pipe can be written at all."""
_GET_SIZE: Final = getattr(fcntl, "F_GETPIPE_SZ", None)
_SET_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class Outlet:
    """Writes lines to ``fd``, which it shares with others and leaves as it is.

    ``tell`` is called (in the thread) with a count when lines were dropped and writing goes again;
    ``failed`` once with what has ended the output, from a thread as well.
    """

    def __init__(
        self,
        fd: int,
        tell: Callable[[int], object] = lambda count: None,
        failed: Callable[[OSError], object] = lambda error: None,
    ) -> None:
        self.error: OSError | None = None
        self._fd = fd
        self._tell = tell
        self._failed = failed
        self._pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._lines: deque[bytes] = deque()
        self._news = threading.Condition()
        self._dropped = 0
        self._writing = False
        self._taken_at = time.monotonic()
        threading.Thread(target=self._serve, name=f"outlet-{fd}", daemon=True).start()

    def put(self, line: bytes) -> None:
        """Have a line written; returns at once."""
        with self._news:
            if self.error is not None:
                return
            if not self._lines and not self._writing:
                self._taken_at = time.monotonic()
            self._lines.append(line)
            while len(self._lines) > 1 and self._too_much():
                self._lines.popleft()
                self._dropped += 1
            self._news.notify_all()

    def stuck(self) -> float:
        """Return for how many seconds nothing was taken of what waits; 0 while nothing waits."""
        with self._news:
            waits = bool(self._lines) or self._writing
            return time.monotonic() - self._taken_at if waits else 0.0

    def end(self, within: float) -> int:
        """Wait until all is written, ``within`` seconds; return how many lines never were."""
        with self._news:
            self._news.wait_for(
                lambda: self.error is not None or not (self._lines or self._writing), within
            )
            left, self._dropped = self._dropped + len(self._lines), 0
            self._lines.clear()
            return left

    def _too_much(self) -> bool:
        return len(self._lines) > LINES or sum(map(len, self._lines)) > BYTES

    def _serve(self) -> None:
        try:
            while True:
                self._write(self._next())
        except OSError as error:
            with self._news:
                self.error = error
                self._lines.clear()
                self._news.notify_all()
            self._failed(error)

    def _next(self) -> bytes:
        """Return the first line, once there is one and room for it; while it waits it may drop."""
        while True:
            with self._news:
                self._writing = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._lines)
                first = self._lines[0]
            if not self._room(len(first)):
                continue
            with self._news:
                if not self._lines or self._lines[0] is not first:
                    continue
                self._writing = True
                self._lines.popleft()
                dropped, self._dropped = self._dropped, 0
            if dropped:
                self._tell(dropped)
            return first

    def _write(self, line: bytes) -> None:
        while line:
            try:
                line = line[os.write(self._fd, line) :]
            except BlockingIOError:  # somebody else has made it non-blocking
                _writable(self._fd, None)
            self._taken_at = time.monotonic()

    def _room(self, size: int) -> bool:
        """Return whether a line can be written now; waits a little while it cannot."""
        if not _writable(self._fd, 1.0):
            return False
        if not self._pipe or size <= _WHOLE or _fits(self._fd, size):
            return True
        time.sleep(LOOK)
        return False


def _writable(fd: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _fits(fd: int, size: int) -> bool:
    """Return whether a pipe takes so many bytes at once; ``True`` if it never would."""
    if _GET_SIZE is None or _SET_SIZE is None:
        return True
    if fcntl.fcntl(fd, _GET_SIZE) < size:
        with suppress(OSError):  # more than this user may have
            fcntl.fcntl(fd, _SET_SIZE, size)
    room = fcntl.fcntl(fd, _GET_SIZE)
    (used,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    pages = room // _WHOLE - (used // _WHOLE + 2)  # the first and the last may be partly used
    return room < size or used == 0 or size <= pages * _WHOLE
