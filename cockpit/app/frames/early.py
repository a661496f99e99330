"""Paints the kept frame before the program is loaded, and holds the terminal until the app has it.

What is typed meanwhile stays in the terminal's queue, unseen, for the live screen. However the
program ends before that, the terminal is given back first.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, Final, NamedTuple

from cockpit.app.frames.kept import Call, Frame, load, place_of, text_of
from cockpit.app.output.cells import cells_of
from cockpit.app.output.pens import pen_of
from cockpit.app.output.stage import Stage, stage_here
from cockpit.config.places import find, state_dir
from cockpit.model.wording import day_time

ENTER: Final = "\x1b[?1049h"
_LEAVE: Final = b"\x1b[0m\x1b[?7h\x1b[?1049l\x1b[?25h"
_FLAGS: Final = {"--read-only": "read_only", "--present": "present", "--ascii": "ascii"}
_SCREENLESS: Final = ("", "dumb", "unknown")
TAKEN_WITHIN: Final = 3.0
"""Seconds that a slow terminal has to take the kept frame before the live one follows."""
ENTERED_WITHIN: Final = 0.03
"""Seconds that tmux has to paint the other screen while it is empty.

Else it paints the frame with it, line by line: half as much again crosses the line.
"""
_CHUNK: Final = 2048
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_CHANGES: Final = (signal.SIGWINCH, signal.SIGCONT)
"""What says that the terminal may have lost what stands on it, though it has that size again."""


class Standing(NamedTuple):
    """A kept frame on the terminal, what it shows by it, and how the terminal was before."""

    frame: Frame
    stage: Stage
    keys: int
    screen: int
    attributes: list[Any]
    handlers: dict[int, Any]
    writing: Writing


class Writing(Thread):
    """Writes to a terminal that may take its time, or takes nothing: nobody need wait for it."""

    def __init__(
        self, number: int, data: bytes, after: Writing | None = None, entering: bytes = b""
    ) -> None:
        super().__init__(daemon=True, name="kept-frame")
        self._number = number
        self._data = entering + data
        self._entering = len(entering)
        self._after = after
        self.wanted = True

    @property
    def whole(self) -> bool:
        """Whether all is out: it may have ended because the terminal refused the rest."""
        return not self._data

    def run(self) -> None:
        """Write until all is out, or nobody wants it any more; ``after`` another one is done."""
        if self._after is not None and self._after.is_alive():
            self._after.join()
        with suppress(OSError):
            if self._entering and os.environ.get("TMUX"):
                self._write(self._entering)
                time.sleep(ENTERED_WITHIN)
            while self._data and self.wanted:
                self._write(_CHUNK)

    def _write(self, most: int) -> None:
        self._data = self._data[os.write(self._number, self._data[:most]) :]


class _Terminal:
    """The one terminal of this process."""

    standing: Standing | None = None


def call_of(arguments: Sequence[str]) -> Call | None:
    """Return how the fleet is to be opened; ``None`` for any other verb, and what is not plain.

    What is plain is not asked of ``argparse`` again, which the first frame would wait for.
    """
    words = list(arguments)
    found: dict[str, Any] = {}
    rest = iter(words[1:] if words[:1] == ["open"] else words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            found[_FLAGS[word]] = True
        elif name == "--config" and "config" not in found:
            found["config"] = value if equals else next(rest, "")
        else:
            return None
    config = found.get("config")
    if config is not None and (not config or config.startswith("-")):
        return None  # the one who parses it says what is wrong
    return opened(Call(**found))


def opened(call: Call) -> Call:
    """Return a call as it works: a shared screen is one that only reads."""
    return call._replace(read_only=call.read_only or call.present)


def frames_dir() -> Path:
    """Return where frames are kept."""
    return state_dir() / "frames"


def show(arguments: Sequence[str]) -> None:
    """Paint the frame that was kept of this call on this terminal, if there is one."""
    with suppress(OSError, ValueError, AttributeError, termios.error):  # a stream may be closed
        call = call_of(arguments)
        if call is None or not _in_front():
            return
        path = find(Path.cwd()) if call.config is None else Path(call.config).absolute()
        if path is not None:
            place = place_of(frames_dir(), path, call, shutil.get_terminal_size())
            frame = load(place, now := time.time())
            if frame is not None:
                _stand(frame, now)


def take() -> Standing | None:
    """Hand the terminal over to the app, which paints over what stands there; once."""
    standing = _let_go()
    if standing is not None:
        standing.writing.join(TAKEN_WITHIN)
        if not standing.writing.whole:
            standing.writing.wanted = False
            standing.stage.doubt()
    return standing


def _let_go() -> Standing | None:
    standing, _Terminal.standing = _Terminal.standing, None
    if standing is not None:
        _restore(standing.handlers)
    return standing


def standing() -> Frame | None:
    """Return the frame that stands on the terminal, if no app has taken it."""
    return None if _Terminal.standing is None else _Terminal.standing.frame


def give_back() -> None:
    """Give the terminal back as it was, unless the app has it, or nothing was painted."""
    held = _let_go()
    if held is not None:
        held.writing.wanted = False
        with suppress(termios.error):
            termios.tcsetattr(held.keys, termios.TCSANOW, held.attributes)
        leaving = Writing(held.screen, _LEAVE, after=held.writing)
        leaving.start()
        leaving.join(TAKEN_WITHIN)


def staged(frame: Frame, now: float) -> Stage:
    """Return a stage that wants a frame as it is now: what it is of stands in its last line."""
    rows = [text_of(row, now) for row in frame.rows]
    stage = stage_here(os.environ)
    cells = [
        [cell for text, style in row for cell in cells_of(text, pen_of(style))] for row in rows
    ]
    width = max(map(len, cells), default=0)
    stage.resize(width, len(cells))
    words = f" as of {day_time(frame.at, now)}, looking"
    cells[-1:] = [cells_of(words[:width].ljust(width), pen_of(frame.mark))]
    for y, row in enumerate(cells):
        stage.put(y, 0, row)
    return stage


def _in_front() -> bool:
    """Tell whether both streams are a terminal that can show it, and this is its program."""
    keys, screen = sys.__stdin__, sys.__stdout__
    if keys is None or screen is None or not (keys.isatty() and screen.isatty()):
        return False
    drawn = os.environ.get("TERM", "") not in _SCREENLESS
    return drawn and os.tcgetpgrp(keys.fileno()) == os.getpgrp()


def _stand(frame: Frame, now: float) -> None:
    assert sys.__stdin__ is not None and sys.__stdout__ is not None, "both are terminals"
    keys, screen = sys.__stdin__.fileno(), sys.__stdout__.fileno()
    before, quiet = termios.tcgetattr(keys), termios.tcgetattr(keys)
    quiet[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF)
    quiet[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    handlers = _handled({**dict.fromkeys(_ENDINGS, _end), signal.SIGTSTP: signal.SIG_IGN})
    stage = staged(frame, now)
    entering = f"{ENTER}\x1b[?25l\x1b[?7l"
    for number in _CHANGES:
        signal.signal(number, lambda *_: stage.doubt())  # the app's own follow, on the same stage
    frame_text = stage.frame().encode("utf-8", "replace")
    writing = Writing(screen, frame_text, entering=entering.encode())
    os.set_blocking(screen, True)  # a program before may have left it so that much is refused
    _Terminal.standing = Standing(frame, stage, keys, screen, before, handlers, writing)
    termios.tcsetattr(keys, termios.TCSANOW, quiet)
    writing.start()


def _end(number: int, _frame: FrameType | None) -> None:
    give_back()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


Handler = Callable[[int, FrameType | None], Any] | int


def _handled(wanted: dict[signal.Signals, Handler]) -> dict[int, Any]:
    """Handle signals; return who did before. One that was ignored stays so (``nohup``)."""
    former: dict[int, Any] = {}
    for number, handler in wanted.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            former[number] = signal.signal(number, handler)
    return former


def _restore(former: dict[int, Any]) -> None:
    for number, handler in former.items():
        if signal.getsignal(number) in (_end, signal.SIG_IGN):  # else the app's by now
            signal.signal(number, handler)
