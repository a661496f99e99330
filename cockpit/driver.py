"""Textual's Linux driver, made to survive a terminal that goes away."""

from __future__ import annotations

from contextlib import suppress
from io import TextIOWrapper
from typing import IO, Any, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class UntilGone:
    """The terminal as a file: what is written after it has gone is dropped, not an error.

    Textual's writer thread would die of it, its queue would fill, and the program would wait
    for ever for room in a queue that nobody empties.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write while there is a terminal."""
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush while there is a terminal."""
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class TerminalDriver(LinuxDriver):
    """Resumes only what was suspended, and leaves when its terminal has gone."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if self._file is not None:
            self._file = cast("TextIOWrapper[Any]", UntilGone(self._file))

    def _sigcont_application(self, *_: object) -> None:
        """Take up the terminal again after ctrl+z only.

        When a session dies the kernel sends SIGHUP and SIGCONT together: starting the modes
        anew then would run a second input thread on a terminal that is no more.
        """
        if self._must_signal_resume:
            super()._sigcont_application()

    def _run_input_thread(self) -> None:
        """Read keys until the terminal ends; its end is the program's, like a hang-up."""
        try:
            self.run_input_thread()
        except OSError:
            self._app.call_later(self._app.exit, None, 129)
