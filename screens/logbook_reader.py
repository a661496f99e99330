"""Reads a run's logbook for its tab."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.safetext import SafeText
from cockpit.records.logbook import read_logbook
from cockpit.sources.offload import offload
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub_line

MOST: Final = 2_000_000
"""Bytes; of a longer logbook the end is shown."""
DEADLINE: Final = 10.0


class Book(NamedTuple):
    """A logbook's safe lines, what is to be said of it, and whether its newest entry is last."""

    lines: tuple[SafeText, ...]
    note: str
    newest_last: bool


async def read_book(path: str) -> Book:
    """Return a logbook; a note says why it cannot be read."""
    try:
        return await offload(_read, path, deadline=DEADLINE)
    except TimeoutError:
        return Book((), "the file did not answer in time", False)


def _read(path: str) -> Book:
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST))
            raw = file.read(MOST)
    except OSError as error:
        return Book((), (error.strerror or "cannot be read").lower(), False)
    book = read_logbook(raw.decode("utf-8", "replace"))
    count = len(book.entries)
    note = f"{count} entr{'y' if count == 1 else 'ies'}"
    note += " · only the end is shown" if size > MOST else ""
    lines = tuple(scrub_line(line) for line in safe_lines(raw))
    return Book(lines, note, book.newest_first is not True)
