"""Reads a run's logbook for its tab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.base import SafeText
from cockpit.records.logbook.as_of import book_then
from cockpit.records.logbook.reading import Logbook, read_logbook
from cockpit.runtime.offload import offload
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub_line

MOST: Final = 256_000
"""Bytes; of a longer logbook the end with the newest entries is shown."""
DEADLINE: Final = 10.0


class LogbookText(NamedTuple):
    """A logbook's safe lines, what is to be said of it, and whether its newest entry is last.

    ``stamp`` changes whenever the file does.
    """

    lines: tuple[SafeText, ...]
    note: str
    newest_last: bool
    stamp: tuple[int, ...] = ()


async def read_book(path: str, former: LogbookText | None = None) -> LogbookText:
    """Return a logbook, ``former`` if it still stands so; a note says why it cannot be read."""
    try:
        return await offload(_read, path, former, deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "the file did not answer in time", False)


async def read_book_then(path: str, at: float) -> LogbookText:
    """Return a logbook as it stood at a moment; the note says how that is known, or why not."""
    found = await book_then(path, at)
    raw = found.text.encode("utf-8", "replace")
    if not raw:
        return LogbookText((), found.told, False)
    try:
        shown = await offload(_text_of, raw, deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "unknown: the logbook is too large", False)
    return shown._replace(note=f"{found.told} · {shown.note}")


def _text_of(raw: bytes) -> LogbookText:
    """Return a logbook of which all bytes are known, as it is shown."""
    size, whole = len(raw), raw.decode("utf-8", "replace")
    book = read_logbook(whole[:MOST])
    newest_last = book.newest_first is not True
    if size > MOST:
        raw = raw[-MOST:].partition(b"\n")[2] if newest_last else raw[:MOST]
        book = read_logbook(raw.decode("utf-8", "replace"))
    return _shown(raw, book, newest_last, size)


def _shown(
    raw: bytes, book: Logbook, newest_last: bool, size: int, stamp: tuple[int, ...] = ()
) -> LogbookText:
    lines = tuple(scrub_line(line) for line in safe_lines(raw))
    count = len(book.entries)
    note = f"{count} entr{'y' if count == 1 else 'ies'}"
    if size > MOST:
        note += f" · only the {'end' if newest_last else 'beginning'} is shown"
    return LogbookText(lines, note, newest_last, stamp)


def _read(path: str, former: LogbookText | None) -> LogbookText:
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if former is not None and former.stamp == stamp:
                return former
            raw = file.read(MOST)
            book = read_logbook(raw.decode("utf-8", "replace"))
            if status.st_size > MOST and book.newest_first is not True:
                file.seek(status.st_size - MOST)
                raw = file.read(MOST).partition(b"\n")[2]
                book = read_logbook(raw.decode("utf-8", "replace"))
    except OSError as error:
        return LogbookText((), (error.strerror or "cannot be read").lower(), False)
    return _shown(raw, book, book.newest_first is not True, status.st_size, stamp)
