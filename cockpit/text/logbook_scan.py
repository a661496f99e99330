"""Finds the entries of a logbook, leniently (SPEC L): headings, dated bullets, any order.

Pure on text. Nothing is reordered; texts are returned as they were written, so whoever shows
them makes them safe first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.model.base import Frozen, Instant
from cockpit.text.logbook_stamp import Stamp, read_stamp

_HEADING: Final = re.compile(r" {0,3}(#{1,6})([ \t].*)?")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_SHA: Final = re.compile(r"\bgit[ _-](?:sha|commit)\W{1,8}([0-9a-f]{7,40})\b", re.IGNORECASE)
_DATED_LINE: Final = re.compile(r"\s{0,3}(?:[-*+|]\s+)?[*_`\[(]{0,3}(?=(?:19|20)\d\d[-/.]\d)")


class Entry(Frozen):
    """One entry. ``line`` (1-based) is where it begins; ``text`` is what stands below it.

    ``section`` is the heading above that it belongs to (``Event Log``).
    """

    at: Instant | None
    title: str
    section: str
    text: str
    line: int


class Line(NamedTuple):
    """One line outside the front matter; ``level`` is 0 unless it is a heading."""

    number: int
    text: str
    level: int = 0
    title: str = ""


def split_front_matter(text: str) -> tuple[str, int]:
    """Return the YAML front matter and the number of lines that it takes (0 without one)."""
    lines = text.splitlines()
    if not lines or lines[0].lstrip("\ufeff").rstrip() != "---":
        return "", 0
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(lines[1:index]), index + 1
    return "", 0


def read_lines(text: str) -> tuple[Line, ...]:
    """Return the lines after the front matter; headings inside code fences are plain text."""
    return tuple(_lines(text.splitlines(), split_front_matter(text)[1]))


def _lines(lines: Sequence[str], skip: int) -> Iterator[Line]:
    fence = ""
    for number, text in enumerate(lines[skip:], start=skip + 1):
        mark = _FENCE.match(text)
        if mark is not None and (not fence or mark.group(1).startswith(fence)):
            fence = "" if fence else mark.group(1)
        heading = None if fence or mark else _HEADING.fullmatch(text)
        if heading is None:
            yield Line(number, text)
        else:
            title = (heading.group(2) or "").strip().rstrip("#").rstrip()
            yield Line(number, text, len(heading.group(1)), title)


def read_entries(text: str) -> tuple[Entry, ...]:
    """Return the entries of a logbook in the order of the file.

    An entry is a heading below a section, any heading with a date, or a dated line that stands
    directly under a section. A heading with a clock time alone takes the date of the one above.
    """
    return _Scan().read(read_lines(text))


class _Scan:
    """One pass over the lines of a logbook."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._sections: dict[int, str] = {}
        self._day: float | None = None
        self._open: Line | None = None
        self._stamp: Stamp | None = None
        self._body: list[str] = []

    def read(self, lines: Sequence[Line]) -> tuple[Entry, ...]:
        for line in lines:
            if line.level:
                self._heading(line)
            elif (self._open is None or not self._open.level) and _DATED_LINE.match(line.text):
                self._start(line, read_stamp(line.text))
            else:
                self._body.append(line.text)
        self._close()
        return tuple(self._entries)

    def _heading(self, line: Line) -> None:
        opened = self._open
        if opened is not None and opened.level and line.level > opened.level:
            stamp = read_stamp(line.title, self._day)
            if stamp is None:
                self._body.append(line.text)
                return
        self._close()
        stamp = read_stamp(line.title, self._day)
        if stamp is not None and not stamp.timed:
            self._day = stamp.at
        if stamp is None and line.level <= 2:
            self._day = None
        above = {level: name for level, name in self._sections.items() if level < line.level}
        self._sections = above if stamp is not None else {**above, line.level: line.title}
        if stamp is not None or line.level > 2:
            self._start(line, stamp)

    def _start(self, line: Line, stamp: Stamp | None) -> None:
        self._close()
        self._open, self._stamp = line, stamp

    def _close(self) -> None:
        if self._open is not None:
            self._entries.append(self._entry(self._open, self._stamp))
        self._open, self._stamp, self._body = None, None, []

    def _entry(self, line: Line, stamp: Stamp | None) -> Entry:
        level = line.level or 7
        above = [name for depth, name in self._sections.items() if 1 < depth < level]
        plain = line.title if line.level else line.text.strip()
        return Entry(
            at=None if stamp is None else stamp.at,
            title=plain if stamp is None else stamp.rest,
            section=above[-1] if above else "",
            text="\n".join(self._body).rstrip("\n"),
            line=line.number,
        )


def last_entry_at(entries: Sequence[Entry], until: float) -> float | None:
    """Return the time of the newest entry; one after ``until`` is a slip of the pen."""
    return max((e.at for e in entries if e.at is not None and e.at <= until), default=None)


def launched_sha(entries: Sequence[Entry]) -> str | None:
    """Return the commit that the newest launched instance records, if it does."""
    told = [
        (entry.at or 0.0, entry.line, match.group(1).lower())
        for entry in entries
        if "instance" in entry.section.lower() and (match := _SHA.search(entry.text))
    ]
    return max(told)[2] if told else None
