"""What a verb is given to read, a file, a packed one or standard input, and a picture of it."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from cockpit.model.observed import JobValue, LogValue
from cockpit.model.place import Place
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.sources.curves import RowFile
from cockpit.sources.logs.pieces import ENDINGS, MAGIC, errors, packing_of, unpacked
from cockpit.text.safe import clean
from cockpit.verbs.common import UsageError, run_file, say

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from cockpit.sources.logs.ranged import Opened

STDIN = "-"
LONGEST = 1_048_576
"""Bytes of a line that are looked at: what follows in it tells nothing."""
CHUNK: Final = 131_072
"""Bytes that are read at once: few enough to stay in a processor's cache."""


def run_meant(what: str, config: Path | None) -> tuple[CockpitFile, RunSpec] | None:
    """Return the run of the run file that is meant; ``None`` for a path or standard input.

    What exists as a path is one. Raises ``UsageError`` where a run file was named and is wrong.
    """
    if what == STDIN or "/" in what or _exists(what):
        return None
    try:
        file = run_file(config)
    except UsageError:
        if config is None:
            return None
        raise
    return next(((file, each) for each in file.runs if each.name == what), None)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # longer than a name may be
        return False


@contextmanager
def log_of(
    file: CockpitFile, spec: RunSpec
) -> Iterator[tuple[JobValue | None, LogValue, Place | None]]:
    """Look at a run once; give its job, its log, and where all of the log can be read.

    Raises ``UsageError`` where no log can be read.
    """
    import asyncio

    from cockpit.model.clock import SystemClock
    from cockpit.sources.logs.spool import passing
    from cockpit.verbs.check import checked  # a file needs no engine
    from cockpit.watch.diagnoser import place_of_log

    with passing():
        facets = asyncio.run(checked(file, [spec.name], SystemClock())).runs[0].facets
        log = facets.log.value
        if log is None:
            why = "none was found" if facets.log.error is None else facets.log.error.message
            raise UsageError(f"the log of {spec.name} cannot be read: {clean(why, 400)}")
        yield facets.job.value, log, place_of_log(spec, log)


@contextmanager
def opened_log(what: str, config: Path | None) -> Iterator[Bytes]:
    """Open the log of a run, a file or standard input; raises ``UsageError`` as ``opened``."""
    meant = run_meant(what, config)
    if meant is None:
        with opened(what) as file:
            yield file
        return
    from cockpit.sources.logs.remote import log_at
    from cockpit.sources.logs.spool import is_spool

    with log_of(*meant) as (_, log, place):
        if place is None:
            raise UsageError(f"only the last {len(log.lines)} lines of {what}'s log can be read")
        if place.here and not is_spool(place):
            with opened(place.path) as file:
                yield file
            return
        try:
            with log_at(place).open() as look:
                yield _Onward(look)
        except OSError as error:
            why = error.strerror or error
            raise UsageError(f"the log of {what} cannot be read: {clean(why)}") from error


class Bytes(Protocol):
    """What is read from its beginning to its end."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""


class _Onward:
    def __init__(self, look: Opened) -> None:
        self._look, self._at = look, look.stat.begin

    def read(self, size: int, /) -> bytes:
        end = min(self._look.stat.size, self._at + size)
        data = self._look.read(self._at, end) if end > self._at else b""
        self._at += len(data)
        return data


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


def whole_chunks(file: Bytes, size: int = CHUNK) -> Iterator[bytes]:
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
