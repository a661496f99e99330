"""An app that gives the terminal back whole, however it ends, and tells no secrets when it dies.

Its driver is Textual's for Linux, made to survive a terminal that goes away.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import IO, Any, Final, cast

from rich.console import RenderableType
from textual.app import App
from textual.driver import Driver
from textual.drivers import _writer_thread
from textual.drivers.linux_driver import LinuxDriver
from textual.widget import Widget
from textual.widgets import Label
from textual.worker import Worker, WorkerState

from cockpit.config.file import state_dir
from cockpit.runtime.crash import fault_line, write_details

CRASHED: Final = 70
QUEUED_FRAMES: Final = 3
"""Frames that may wait for a slow terminal: 30, Textual's own number, is seconds of lag."""
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOUSE_PIXELS_OFF: Final = "\x1b[?1016l"


class TerminalApp(App[str]):
    """Textual's app without its crash screen, its animations and its default executor."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        self.crash_line: str | None = None

    def get_driver_class(self) -> type[Driver]:
        """Return our driver for a real terminal, else (tests, the web) Textual's choice."""
        chosen = super().get_driver_class()
        return TerminalDriver if chosen is LinuxDriver else chosen

    def get_loading_widget(self) -> Widget:
        """Return something that stands still."""
        return Label("…", markup=False)

    async def run_async(self, **options: Any) -> str | None:  # noqa: ANN401 - as they are in Textual
        """Run with the signals that end a program handled, and stop what was started."""
        loop = asyncio.get_running_loop()
        for number in _ENDINGS:
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        try:
            return await super().run_async(**options)
        finally:
            await self.stop_work()

    async def stop_work(self) -> None:
        """Stop what runs beside the screens; called with the terminal already given back."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a failed worker's fault in one line instead of dying of it."""
        if event.state is WorkerState.ERROR and isinstance(event.worker.error, Exception):
            self.report_fault(event.worker.error)

    def report_fault(self, error: BaseException) -> str:
        """Keep a fault's details and return the one line about it."""
        return fault_line(error, write_details(error, state_dir() / "crashes", time.time()))

    def panic(self, *renderables: RenderableType) -> None:
        """End; what Textual would print is in the details file."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        error = self._exception or sys.exception() or RuntimeError("unknown fault")
        if self.crash_line is None:
            self.crash_line = self.report_fault(error)
        self._return_code = CRASHED
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


def run_in_terminal(app: TerminalApp, mouse: bool) -> int:
    """Run an app; return the exit status: 0, 70 after a crash (told in one line), 128 + signal."""
    vars(_writer_thread)["MAX_QUEUED_WRITES"] = QUEUED_FRAMES
    with _signals_kept():
        app.run(mouse=mouse)
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        sys.__stderr__.write(_MOUSE_PIXELS_OFF)
        sys.__stderr__.flush()
    if app.crash_line is not None:
        sys.stderr.write(f"cockpit: {app.crash_line}\n")
        return CRASHED
    return app.return_code or 0


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put the caller's signal handlers back: an event loop forgets them when it closes."""
    former = {number: signal.getsignal(number) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


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
