"""An app that restores the terminal however it ends, and shows no secrets when it crashes.

Its driver is that of Textual for Linux, made to survive a terminal that goes away or does not read.
A thread writes, so that painting never waits for a slow line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import accumulate
from threading import Condition, Thread
from typing import IO, Any, Final, cast

from rich.console import RenderableType
from textual import events
from textual._compositor import ChopsUpdate
from textual._context import active_message_pump
from textual.app import App
from textual.content import Content, Span
from textual.driver import Driver
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from cockpit.app.cell_output import CellApp, CellOutput, wanted_here
from cockpit.app.faults import ScreenFaults
from cockpit.app.kept_frame import CLEAR, ENTER, give_back, take
from cockpit.app.terminal_input import (
    WORD_MOTION,
    EndOfInput,
    KeyParser,
    behind_escape,
    may_ask,
    question,
    read_keys,
)
from cockpit.app.typeahead import PRESSED, TypeAhead
from cockpit.config.file import state_dir
from cockpit.runtime.account import crash_message
from cockpit.text.safe import Charset, drawn
from screens.base import edits_lines

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


CRASHED: Final = 70
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOUSE_PIXELS_OFF: Final = "\x1b[?1016l"


class TerminalApp(CellApp):
    """Textual's app without its crash screen, its animations and its default executor."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        self.crash_line: str | None = None
        self.charset = Charset.UNICODE
        self._missed: set[Region] = set()
        self.laid_out, self.shown = asyncio.Event(), asyncio.Event()
        """Set when a screen would have been painted first, and when anything is painted at all."""
        self.live_wanted = asyncio.Event()
        self.shown.set()
        self._typeahead = TypeAhead(self, self._hand_on, self.shown, self.live_wanted)
        self._faults = ScreenFaults(self, self.keep_fault, self.warn)

    def get_driver_class(self) -> type[Driver]:
        """Return our driver for a real terminal, else (tests, the web) Textual's choice."""
        chosen = super().get_driver_class()
        return TerminalDriver if chosen is LinuxDriver else chosen

    def get_loading_widget(self) -> Widget:
        """Return something that stands still."""
        from textual.widgets import Label  # nothing of the cockpit's waits so

        return Label("…", markup=False)

    async def on_event(self, event: events.Event) -> None:
        """Hand on what is pressed in its order; a key that a screen did not act on ends there.

        By the time that it came back here another screen may stand, and take it for its own.
        """
        if isinstance(event, events.Resize):
            self.still_that_size(event.size)
        if isinstance(event, PRESSED) and not event.is_forwarded:
            await self._typeahead.take(event)
        elif not isinstance(event, events.Key):
            await super().on_event(event)

    async def _hand_on(self, event: events.Event) -> None:
        """Take alt+key as Esc, then the key: that is what was pressed, one soon after the other.

        Unless something bound it: where text is typed alt+backspace deletes a word.
        """
        key = behind_escape(event) if isinstance(event, events.Key) else None
        if key is not None and isinstance(event, events.Key) and not self._binds(event.key):
            if event.key in WORD_MOTION and edits_lines(self.focused):
                event = _at(event.time, events.Key(WORD_MOTION[event.key], None))
            else:
                self._typeahead.put_back(key)
                event = _at(event.time, events.Key("escape", "\x1b"))
        await super().on_event(event)

    def _binds(self, key: str) -> bool:
        chain = self.screen._modal_binding_chain
        return any(key in bindings.key_to_bindings for _, bindings in chain)

    @property
    def pressed_at(self) -> float:
        """When what is being done now was pressed (``Message.time``); now if nothing was."""
        current = self._typeahead.current
        return Message().time if current is None else current.time

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Paint; while the terminal has not taken the former frame, only note what to paint."""
        driver, renderable = self._driver, on_screen(renderable)
        if renderable is None or self._batch_count:
            super()._display(screen, renderable)
        elif not self.shown.is_set():
            self._missed |= _regions(screen, renderable)
            self.laid_out.set()
        elif self.cells is not None:
            self.display_cells(renderable)
        elif isinstance(driver, TerminalDriver) and driver.busy(self._taken):
            self._missed |= _regions(screen, renderable)
        else:
            super()._display(screen, renderable)

    def held_back(self, screen: Screen[Any]) -> bool:
        """Return whether nothing is shown yet: what a screen would render is only noted then."""
        if self.shown.is_set() or self._batch_count or not screen._compositor._dirty_regions:
            return False
        self._missed |= screen._compositor._dirty_regions
        self.laid_out.set()
        return True

    def _taken(self) -> None:
        """Schedule a paint of the missed regions; called by the thread that writes."""
        self.call_later(self.catch_up)

    def catch_up(self) -> None:
        """Paint the missed regions as they are now."""
        missed, self._missed = self._missed, set()
        if not missed or not self.screen_stack or not self.screen.is_mounted:
            return
        screen, whole = self.screen, self.screen.size.region
        inside = {each.intersection(whole) for each in missed}
        screen._compositor._dirty_regions |= {each for each in inside if each}
        screen._compositor_refresh()

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

    def keep_fault(self, error: BaseException) -> str:
        """Keep a fault's details and return the one line about it."""
        return crash_message(error, state_dir() / "crashes", time.time())

    def report_fault(self, error: BaseException) -> str:
        """Keep a fault's details and report it; return the line about it."""
        said = self.keep_fault(error)
        if self.is_running and self.crash_line is None:
            self.warn(said)
        return said

    def warn(self, words: str) -> None:
        """Tell a person something, where there is a place for it."""

    async def _dispatch_message(self, message: Message) -> None:
        """Do what a message asks for; a fault in it is no end of the app's own messages."""
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # noqa: BLE001 - as Textual does for every message
            self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        """Close what has failed, if the rest can go on; called where it failed."""
        self.fault_of(active_message_pump.get(self), error)

    @contextmanager
    def faults_of(self, pump: MessagePump) -> Iterator[None]:
        """Let a fault in what is done for a screen be that screen's."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - any fault of a screen's own
            self.fault_of(pump, error)

    def fault_of(self, pump: MessagePump, error: Exception) -> None:
        """Contain a fault of a screen or widget, else end."""
        if self._faults.contains(error, pump):
            self._exception = self._exception or error  # what drives a test raises it in the end
            return
        self._exception = None
        super()._handle_exception(error)

    def panic(self, *renderables: RenderableType) -> None:
        """End; what Textual would print is in the details file."""
        self._fatal_error()

    def _fatal_error(self) -> None:
        error = self._exception or sys.exception() or RuntimeError("unknown fault")
        if self.crash_line is None:
            self.crash_line = self.keep_fault(error)
        self._return_code = CRASHED
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


def run_in_terminal(app: TerminalApp, mouse: bool) -> int:
    """Run an app; return the exit status: 0, 70 after a crash (one line says so), 128 + signal."""
    vars(linux_driver).update(WriterThread=ScreenWriter)
    with _signals_kept():
        app.run(mouse=mouse)
    give_back()
    file = terminal_file()
    if file is not None:
        ending = UntilGone(file)
        ending.write(_MOUSE_PIXELS_OFF)
        ending.flush()  # before the line below: they may be two streams on one terminal
    if app.crash_line is not None:
        sys.stderr.write(f"cockpit: {app.crash_line}\n")
        return CRASHED
    return app.return_code or 0


def terminal_file() -> IO[str] | None:
    """Return the terminal to draw on, whichever of the streams is redirected; ``None``: none.

    Textual draws on the error stream, which ``2>/dev/null`` would make an empty screen. Programs
    that ran here before may have left it so that it refuses what it cannot take at once: a frame
    would be cut.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.closed and stream.isatty():
            number = stream.fileno()
            os.set_blocking(number, True)
            return open(
                number, "w", encoding=stream.encoding, errors="backslashreplace", closefd=False
            )
    return None


def _at(time: float, event: events.Key) -> events.Key:
    """Return a key as if it had been read at that time."""
    event.time = time
    return event


def on_screen(renderable: RenderableType | None) -> RenderableType | None:
    """Return an update without the lines that a screen has no more: it was made smaller since."""
    if isinstance(renderable, ChopsUpdate):
        spans = [span for span in renderable.spans if 0 <= span[0] < len(renderable.chops)]
        return ChopsUpdate(renderable.chops, spans, renderable.chop_ends) if spans else None
    return renderable


def _regions(screen: Screen[Any], renderable: RenderableType | None) -> set[Region]:
    """Return what an update would have painted: the whole screen, unless it says what."""
    if not isinstance(renderable, ChopsUpdate):
        return {screen.size.region}
    return {Region(start, y, end - start, 1) for y, start, end in renderable.spans}


def drawn_line(line: Content, charset: Charset) -> Content:
    """Return a painted line as the terminal can show it, its colours where they were."""
    plain = drawn(line.plain, charset)
    if plain == line.plain:
        return line
    ends = [0, *accumulate(len(drawn(letter, charset)) for letter in line.plain)]
    last = len(ends) - 1
    spans = [Span(ends[min(s.start, last)], ends[min(s.end, last)], s.style) for s in line.spans]
    return Content(plain, spans)


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
    for ever for room in a queue that nobody empties. What the terminal cannot show does not
    pass here, whichever widget has painted it.
    """

    def __init__(self, file: IO[str], charset: Charset = Charset.UNICODE) -> None:
        self._file = file
        self._charset = charset
        self.failed = False
        """Whether a write has failed: what the terminal shows is unknown then."""

    def write(self, text: str) -> int:
        """Write while there is a terminal."""
        with self._failing():
            self._file.write(drawn(text, self._charset))
        return len(text)

    def flush(self) -> None:
        """Flush while there is a terminal."""
        with self._failing():
            self._file.flush()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.failed = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class TerminalDriver(LinuxDriver):
    """Never waits for its terminal, resumes only what was suspended, leaves when it has gone."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._entered = False
        self._end_of_input = EndOfInput()
        self.exit_event = self._end_of_input
        file = terminal_file()
        if file is not None:
            charset = app.charset if isinstance(app, TerminalApp) else Charset.UNICODE
            self._file = cast("TextIOWrapper[Any]", UntilGone(file, charset))
        self.cells: CellOutput | None = CellOutput(self) if wanted_here(os.environ) else None

    def start_application_mode(self) -> None:
        """Take the terminal, and ask it for its background: before the first frame."""
        kept = take()
        self._entered = kept is not None
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if kept is not None:
            self.attrs_before = kept.attributes
        if kept is not None and self.cells is None:
            self.write(kept.stage.leave())
        if self.cells is not None:
            self.cells.begin(None if kept is None else kept.stage)
            former = signal.getsignal(signal.SIGWINCH)
            if callable(former):
                signal.signal(signal.SIGWINCH, partial(self._resized, former))
        if self.input_tty and not self._must_signal_resume:  # else it is another program's now
            if self.cells is not None and may_ask(os.environ):
                self.write(self.cells.question(self._get_terminal_size()[1]))
            self.write(question(os.environ))
            self.flush()

    def stop_application_mode(self) -> None:
        """Give the terminal back, also the mode that Textual forgets."""
        if self._mouse_pixels:
            self.write(_MOUSE_PIXELS_OFF)
            self._mouse_pixels = False
        if self.cells is not None:
            self.write(self.cells.stage.leave())
        self.write(CLEAR)
        super().stop_application_mode()

    def write(self, data: str) -> None:
        """Write to the terminal; another screen that is entered twice would be cleared."""
        if data == ENTER and self._entered:
            self._entered = False
        else:
            super().write(data)

    def busy(self, then: Callable[[], object]) -> bool:
        """Return whether the terminal has still to take something; ``then`` is called once it has.

        Each frame is written as a whole: what is not painted meanwhile cannot be late.
        """
        writer = cast("ScreenWriter | None", self._writer_thread)
        return isinstance(writer, ScreenWriter) and writer.busy(then)

    def process_message(self, message: Message) -> None:
        """Hand on what the terminal sends, but for the answer to a question of the output's."""
        if not isinstance(message, events.CursorPosition):
            super().process_message(message)
        elif self.cells is not None:
            self.cells.answered(message.x, message.y)

    def cut(self) -> bool:
        """Return whether since the last call a write has failed."""
        file = cast("object", self._file)
        failed = isinstance(file, UntilGone) and file.failed
        if failed:
            vars(file)["failed"] = False
        return failed

    def _sigcont_application(self, *_: object) -> None:
        """Take up the terminal again after ctrl+z only; after another stop paint it anew.

        When a session dies the kernel sends SIGHUP and SIGCONT together: starting the modes
        anew then would run a second input thread on a terminal that is no more.
        """
        if self._must_signal_resume:
            super()._sigcont_application()
        elif isinstance(self._app, TerminalApp):
            self._loop.call_soon_threadsafe(self._app.call_later, self._app.repaint)

    def _resized(self, then: Callable[..., object], *about: object) -> None:
        """Hear of another size before it is known which, and whether it is another at all."""
        if self.cells is not None:
            self.cells.doubt()
        then(*about)

    def _run_input_thread(self) -> None:
        """Read keys until the terminal ends; its end is the program's, like a hang-up."""
        try:
            self.run_input_thread()
        except OSError:
            self._app.call_later(self._app.exit, None, 129)

    def run_input_thread(self) -> None:
        """Read keys until the program has had enough of them."""
        read_keys(self.fileno, self._end_of_input, KeyParser(self._debug), self.process_message)
