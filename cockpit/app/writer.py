"""What is written to the terminal, by a thread: who paints never waits for a slow line."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from typing import IO, Final

LAST_WORDS: Final = 3.0
"""Seconds that a terminal has to take what gives it back whole, once the program leaves."""


class ScreenWriter(Thread):
    """Stands where Textual has its writer thread, whose full queue would stop the program.

    Nothing is refused here: whoever paints asks first whether the terminal has taken the former
    frame (``busy``), and paints later what it then looks like.
    """

    def __init__(self, file: IO[str]) -> None:
        super().__init__(daemon=True, name="terminal-output")
        self._file = file
        self._changed = Condition()
        self._waiting: list[str] = []
        self._writing = False
        self._ended = False
        self._then: Callable[[], object] | None = None

    def busy(self, then: Callable[[], object]) -> bool:
        """Return whether something waits to be written; if so ``then`` is called when it is out.

        ``then`` is called once, by the writing thread.
        """
        with self._changed:
            waits = self._writing or bool(self._waiting)
            self._then = then if waits else None
            return waits

    def write(self, text: str) -> None:
        """Hand over what shall be written; returns at once."""
        with self._changed:
            self._waiting.append(text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Do nothing: everything is flushed when it is written."""

    def isatty(self) -> bool:
        """Return that this stands for a terminal."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._file.fileno()

    def run(self) -> None:
        """Write what comes, until the end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                text, self._waiting = "".join(self._waiting), []
                if not text:
                    return
                self._writing = True
            self._file.write(text)
            self._file.flush()
            with self._changed:
                self._writing = False
                then = None if self._waiting else self._then
                self._then = None if then is not None else self._then
            if then is not None:
                then()

    def stop(self) -> None:
        """Write what is left, and end; a terminal that takes nothing is not waited for."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.join(LAST_WORDS)
