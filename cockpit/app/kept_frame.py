"""The kept frame: the last screen of a session, painted while the next one is still loading.

Loaded before anything else, so without Textual and pydantic. A kept frame is one small file: a line
with a checksum, then JSON. It holds the terminal until the app takes over; what is typed meanwhile
stays in the queue of the terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import termios
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, Final, NamedTuple

from cockpit import __version__
from cockpit.app.output.encoder import cells_of, pen_of
from cockpit.app.output.stage import Stage, stage_here
from cockpit.config.places import find, state_dir
from cockpit.model.late_regex import late_regex
from cockpit.model.wording import FORMS, UNKNOWN, aged, brief, day_time

FORMAT: Final = 1
MOST: Final = 1_000_000
"""Bytes of such a file; what is larger was not written here."""
FILES: Final = 24
"""How many are kept, the newest: each run file, size and way of opening has its own."""
VARIABLES: Final = (
    *("TERM", "COLORTERM", "NO_COLOR", "COLORFGBG", "TEXTUAL_COLOR_SYSTEM", "TMUX", "STY"),
    *("LC_ALL", "LC_CTYPE", "LANG", "TZ"),
)
"""What decides, beside the run file, how a frame is drawn."""
_CONTROL: Final = late_regex("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SGR: Final = late_regex(r"[0-9;]*")
_SPACES: Final = late_regex(" {2,}")


class Call(NamedTuple):
    """How the cockpit was opened on its fleet."""

    config: str | None = None
    read_only: bool = False
    present: bool = False
    ascii: bool = False


class Aged(NamedTuple):
    """Words about an instant (s since the epoch): their form, and whether only their first unit."""

    form: str
    since: float
    brief: bool

    def words(self, now: float) -> str:
        """Return what they are at a moment."""
        found = aged(self.form, self.since, now)
        return brief(found) if self.brief else found


class StyledText(NamedTuple):
    """Cells in one style, as the parameters of an SGR sequence."""

    text: str
    style: str
    aged: Aged | None = None


Row = tuple[StyledText, ...]


class Frame(NamedTuple):
    """What stood on a terminal at an instant; ``mark`` is the style of what needs attention."""

    at: float
    dark: bool
    mark: str
    rows: tuple[Row, ...]


class Place(NamedTuple):
    """Where a frame is kept, and what it must be of to be shown."""

    path: Path
    about: dict[str, Any]


def place_of(folder: Path, run_file: Path, call: Call, size: tuple[int, int]) -> Place:
    """Return where the frame of a call on a terminal of ``size`` (columns, rows) is kept.

    Raises ``OSError`` where the run file cannot be looked at.
    """
    found = run_file.stat()
    known: dict[str, Any] = {name: os.environ.get(name) for name in VARIABLES}
    known["zone"] = [time.timezone, time.altzone, *time.tzname]  # it may be a file's word, not TZ's
    kept: dict[str, Any] = {
        "format": [FORMAT, __version__],
        "file": str(run_file),
        "call": list(call[1:]),
        "size": list(size),
    }
    name = f"{zlib.crc32(json.dumps(kept).encode()):08x}.frame"
    seen = [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]
    return Place(folder / name, {**kept, "seen": seen, "terminal": known})


def load(place: Place, now: float) -> Frame | None:
    """Return the frame of a place, if it is whole, this user's own, and of the run file as it is.

    Nothing is said about one that is not: it is only what would have been shown a moment earlier.
    """
    try:
        text = _read(place.path)
        sum_, _, body = text.partition(b"\n")
        if int(sum_, 16) != zlib.crc32(body):
            return None
        found = json.loads(body)
        frame = _frame(found)
        fits = found["about"] == place.about and len(frame.rows) == place.about["size"][1]
        return frame if fits and place.about["seen"][0] / 1e9 <= frame.at <= now else None
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def save(place: Place, frame: Frame) -> None:
    """Keep a frame, readable by its owner alone; what cannot be kept is forgotten. Blocks.

    It is written beside and moved into place: a reader, or a kill, finds the old or the new.
    """
    styles = list(dict.fromkeys(piece.style for row in frame.rows for piece in row))
    at = {style: number for number, style in enumerate(styles)}
    rows = [[[each.text, at[each.style], *(each.aged or ())] for each in row] for row in frame.rows]
    found = {"about": place.about, "at": frame.at, "dark": frame.dark, "mark": frame.mark}
    body = json.dumps({**found, "styles": styles, "rows": rows}, separators=(",", ":")).encode()
    if len(body) > MOST - 16:
        return
    from cockpit.app.session_files import replace_private  # loaded by then, and large

    with suppress(OSError):
        replace_private(place.path, b"%08x\n" % zlib.crc32(body) + body)
        _thin_out(place.path.parent)


def text_of(row: Sequence[StyledText], now: float) -> list[tuple[str, str]]:
    """Return a row's texts and styles at a moment, every age counted anew, as wide as it was."""
    texts = [each.text for each in row]
    for at, piece in enumerate(row):
        if piece.aged is not None:
            texts[at] = _fitting(texts, at, piece.aged.words(now))
    return [(text, piece.style) for text, piece in zip(texts, row, strict=True)]


def _fitting(texts: list[str], at: int, words: str) -> str:
    """Return words in the room of those at ``at``, which takes from the spaces of its row.

    Where there are none only the largest unit is shown, else that nobody knows.
    """
    room = len(texts[at])
    for words_now in (words, brief(words)):
        if len(words_now) <= room or _narrowed(texts, at, len(words_now) - room):
            return words_now.ljust(room)
    return UNKNOWN.ljust(room)


def _narrowed(texts: list[str], at: int, by: int) -> bool:
    """Take spaces away from the nearest gap that keeps one, behind first; return whether done."""
    for near in (*range(at + 1, len(texts)), *range(at - 1, -1, -1)):
        for gap in _SPACES.finditer(texts[near]):
            if len(gap[0]) > by:
                texts[near] = texts[near][: gap.start()] + texts[near][gap.start() + by :]
                return True
    return False


def _read(path: Path) -> bytes:
    """Return what is kept there; raises ``OSError`` for what this user did not write as a file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
        if not own or found.st_mode & 0o077 or found.st_size > MOST:
            raise OSError("not written here")
        return file.read(MOST)


def _frame(found: dict[str, Any]) -> Frame:
    """Return the frame of a document; raises ``ValueError`` and the like for what is none."""
    styles = [_style(each) for each in found["styles"]]
    rows = tuple(tuple(_styled(each, styles) for each in row) for row in found["rows"])
    return Frame(float(found["at"]), bool(found["dark"]), _style(found["mark"]), rows)


def _styled(found: Sequence[Any], styles: Sequence[str]) -> StyledText:
    text, style, *about = found
    if not isinstance(text, str) or _CONTROL.search(text):
        raise ValueError("no text of a frame")
    if not about:
        return StyledText(text, styles[style])
    form, since, short = about
    if form not in FORMS:
        raise ValueError("no age")
    return StyledText(text, styles[style], Aged(form, float(since), bool(short)))


def _style(found: object) -> str:
    if not isinstance(found, str) or not _SGR.fullmatch(found):
        raise ValueError("no style")
    return found


def _thin_out(folder: Path) -> None:
    """Remove all but the newest frames; what a kill left half written goes with the old ones."""
    files: Iterable[Path] = (*folder.glob("*.frame"), *folder.glob("*.new"))
    newest = sorted(files, key=lambda each: each.lstat().st_mtime, reverse=True)
    for each in newest[FILES:]:
        each.unlink(missing_ok=True)


ENTER: Final = "\x1b[?1049h"
CLEAR: Final = "\x1b[0m\x1b[H\x1b[2J"
"""Empties the screen before it is left: where a pane has grown meanwhile, tmux would put the rows
that do not fit the former size above what stood there before."""
_LEAVE: Final = CLEAR.encode() + b"\x1b[?7h\x1b[?1049l\x1b[?25h"
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
        for number, handler in standing.handlers.items():
            if signal.getsignal(number) in (_end, signal.SIG_IGN):  # else the app's by now
                signal.signal(number, handler)
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
