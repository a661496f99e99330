"""A frame as it is kept: cells, styles, and what its ages are reckoned from; one file each.

Loaded before anything else: no Textual, no pydantic. The file is a line with a checksum, then
JSON: what call and which terminal it is for, when it was seen, its styles, its rows of pieces.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit import __version__
from cockpit.model.late_regex import late_regex
from cockpit.model.wording import FORMS, UNKNOWN, aged, brief

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


class Piece(NamedTuple):
    """Cells in one style, as the parameters of an SGR sequence."""

    text: str
    style: str
    aged: Aged | None = None


Row = tuple[Piece, ...]


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

    Nothing is told of one that is not: it is only what would have been shown a moment earlier.
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
    made = place.path.with_suffix(f".{os.getpid()}.new")
    with suppress(OSError):
        place.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made.unlink(missing_ok=True)
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(b"%08x\n" % zlib.crc32(body) + body)
            made.replace(place.path)
        except OSError:
            made.unlink(missing_ok=True)
        _thin_out(place.path.parent)


def text_of(row: Sequence[Piece], now: float) -> list[tuple[str, str]]:
    """Return a row's texts and styles at a moment, every age told anew, as wide as it was."""
    texts = [each.text for each in row]
    for at, piece in enumerate(row):
        if piece.aged is not None:
            texts[at] = _fitting(texts, at, piece.aged.words(now))
    return [(text, piece.style) for text, piece in zip(texts, row, strict=True)]


def _fitting(texts: list[str], at: int, words: str) -> str:
    """Return words in the room of those at ``at``, which takes from the spaces of its row.

    Where there are none only the largest unit is told, else that nobody knows.
    """
    room = len(texts[at])
    for told in (words, brief(words)):
        if len(told) <= room or _narrowed(texts, at, len(told) - room):
            return told.ljust(room)
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
    rows = tuple(tuple(_piece(each, styles) for each in row) for row in found["rows"])
    return Frame(float(found["at"]), bool(found["dark"]), _style(found["mark"]), rows)


def _piece(found: Sequence[Any], styles: Sequence[str]) -> Piece:
    text, style, *about = found
    if not isinstance(text, str) or _CONTROL.search(text):
        raise ValueError("no text of a frame")
    if not about:
        return Piece(text, styles[style])
    form, since, short = about
    if form not in FORMS:
        raise ValueError("no age")
    return Piece(text, styles[style], Aged(form, float(since), bool(short)))


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
