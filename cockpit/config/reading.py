"""Files that a run file names, read within a deadline: one on a hung mount keeps nobody waiting.

The run file is read before there is an event loop, so this waits for a daemon thread by itself.
One that hangs is left behind; until it comes back, the same file is not asked for again.
"""

from __future__ import annotations

import errno
import stat
import threading
from pathlib import Path
from typing import Final

PATIENCE: Final = 2.0
"""Seconds that a file is given; while another one hangs, ``BRIEF`` is: it may be one mount."""
BRIEF: Final = 0.2

_given_up: Final[dict[Path, threading.Thread]] = {}


class _Read(threading.Thread):
    """Reads one regular file; ``found`` is its text, or why there is none."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(name=f"read {path.name}", daemon=True)
        self._path, self._most = path, most
        self.found: bytes | Exception = b""

    def run(self) -> None:
        """Read it."""
        try:
            self.found = _read(self._path, self._most)
        except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
            self.found = error


def read_within(path: Path, most: int) -> bytes:
    """Return up to ``most`` bytes of a regular file.

    Raises ``OSError`` (``ValueError`` for no path at all), ``TimeoutError`` after ``PATIENCE``
    seconds without an answer.
    """
    hangs = [name for name, each in tuple(_given_up.items()) if each.is_alive()]
    if path in hangs:
        raise TimeoutError(errno.ETIMEDOUT, "still does not respond")
    thread, wait = _Read(path, most), min(PATIENCE, BRIEF) if hangs else PATIENCE
    thread.start()
    thread.join(wait)
    if thread.is_alive():
        _given_up[path] = thread
        raise TimeoutError(errno.ETIMEDOUT, f"did not respond within {wait:g} s")
    if isinstance(thread.found, Exception):
        raise thread.found
    return thread.found


def answers_again() -> bool:
    """Tell whether a file that was given up has answered since; each is told of once."""
    back = [name for name, each in tuple(_given_up.items()) if not each.is_alive()]
    for name in back:
        _given_up.pop(name, None)
    return bool(back)


def _read(path: Path, most: int) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    with path.open("rb") as file:
        return file.read(most)
