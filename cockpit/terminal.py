"""An app that gives the terminal back whole, however it ends, and tells no secrets when it dies."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import RenderableType
from textual.app import App
from textual.driver import Driver
from textual.drivers import _writer_thread
from textual.drivers.linux_driver import LinuxDriver
from textual.widget import Widget
from textual.widgets import Label
from textual.worker import Worker, WorkerState

from cockpit.config import state_dir
from cockpit.driver import TerminalDriver
from cockpit.watch.crash import fault_line, write_details

CRASHED: Final = 70
INTERRUPTED: Final = 130
QUEUED_FRAMES: Final = 3
"""Frames that may wait for a slow terminal: 30, Textual's own number, is seconds of lag."""
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOUSE_PIXELS_OFF: Final = "\x1b[?1016l"
_LATE_OPTIONS: Final = ("MAX_QUEUED_WRITES",)


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
            loop.add_signal_handler(number, self._end, number)
        try:
            return await super().run_async(**options)
        finally:
            await self.stop_work()

    async def stop_work(self) -> None:
        """Stop what runs beside the screens; called with the terminal already given back."""

    def _end(self, number: int) -> None:
        self.exit(return_code=128 + number)

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
    vars(_writer_thread)[_LATE_OPTIONS[0]] = QUEUED_FRAMES
    with _signals_kept():
        app.run(mouse=mouse)
    _write(_MOUSE_PIXELS_OFF)
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


def _write(codes: str) -> None:
    terminal = sys.__stderr__
    if terminal is not None and terminal.isatty():
        terminal.write(codes)
        terminal.flush()
