"""What a verb is given to read, a file, a packed one or standard input, and a picture of it."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from cockpit.sources.logs.local import ENDINGS, MAGIC, errors, packing_of, unpacked
from cockpit.sources.rowfile import RowFile
from cockpit.text.safe import clean
from cockpit.verbs.common import UsageError, say

if TYPE_CHECKING:
    from typing_extensions import Buffer

STDIN = "-"
LONGEST = 1_048_576
"""Bytes of a line that are looked at: what follows in it tells nothing."""
CHUNK: Final = 131_072
"""Bytes that are read at once: few enough to stay in a processor's cache."""


def is_history(what: str) -> bool:
    """Tell a path (``-``: standard input) from the name of a run."""
    return what == STDIN or "/" in what or what.endswith((".wandb", ".jsonl", *ENDINGS))


def holds_rows(what: str) -> bool:
    """Tell JSON lines from W&B's own files."""
    return what == STDIN or not (what.endswith(".wandb") or Path(what).is_dir())


def history_name(path: str) -> str:
    """Return what a history is called by its path."""
    return clean(Path(path).name.partition(".")[0], 100) or "history"


def write_picture(option: str, path: str, text: str) -> None:
    """Write what ``option`` asks for; raises ``UsageError``, one line."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        said = f"{option} {clean(path, 4096)} cannot be written: {clean(why)}"
        raise UsageError(said) from error


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open what ``name`` names (``-``: standard input) for reading bytes.

    Raises ``UsageError`` in one line for what is not there, is no file, or breaks off while it
    is read.
    """
    try:
        with _open(name) as file:
            yield file
    except BrokenPipeError:
        raise  # nobody reads what is printed; nothing is wrong with what was read
    except errors() as error:
        why = (getattr(error, "strerror", None) or str(error) or "it breaks off").lower()
        raise UsageError(f"{_shown(name)} cannot be read: {why}") from error


class _Interruptible(io.FileIO):
    """A file of which no Ctrl-C is lost: one that came between two reads is heard at the next.

    A read of many bytes is many calls, and what came between them waited until it was over:
    for ever, of a pipe that nobody writes to.
    """

    def readinto(self, buffer: Buffer, /) -> int | None:  # its own code is where one is heard
        return super().readinto(buffer)


def _open(name: str) -> BinaryIO:
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed; expected a log on it, or a file's name")
        if sys.stdin.isatty():
            sys.stderr.write("cockpit: reading standard input; end it with ctrl-D\n")
        return io.BufferedReader(_Interruptible(sys.stdin.fileno(), closefd=False), CHUNK)
    path = Path(name)
    if stat.S_ISDIR(path.stat().st_mode):
        raise UsageError(f"{_shown(name)} is a folder; expected a file")
    file = io.BufferedReader(_Interruptible(path), CHUNK)
    packing = packing_of(name, file.peek(MAGIC))
    return file if packing is None else unpacked(packing, file)


def say_left_out(rows: RowFile) -> None:
    """Say of which lines nothing was read."""
    if rows.bad:
        say(f"{rows.bad} lines are not rows and were skipped; the first is line {rows.first_bad}")


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else clean(name, 4096)


def whole_chunks(file: BinaryIO, size: int = CHUNK) -> Iterator[bytes]:
    r"""Yield chunks of whole lines without their last break; memory is bounded.

    Of a giant line its last ``\r`` states stay, else its beginning.
    """
    rest = b""
    while data := file.read(size):
        end = data.rfind(b"\n")
        if end >= 0:
            yield rest + data[:end]
            rest = data[end + 1 :]
        elif len(rest := rest + data) > LONGEST:
            state = rest.find(b"\r", len(rest) - LONGEST // 2)
            rest = rest[:LONGEST] if state < 0 else rest[state:]
    if rest:
        yield rest


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of a giant one its beginning, so that memory is bounded."""
    while line := file.readline(LONGEST):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST)
        yield line
