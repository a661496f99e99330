"""A log file of any size, read in pages: seek, read a few blocks, show; nothing is indexed.

All functions block (a screen calls them through ``offload``) and raise ``OSError`` when the
file cannot be read. Each opens the file anew, so that a rotated or replaced file is simply
the new one. Lines come back safe and with secrets masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.observed import LogPage
from cockpit.model.safetext import SafeText
from cockpit.runtime.regular import open_regular
from cockpit.sources.logs.lines import BLOCK, RawLine, line_start, lines_before, lines_from, read_at
from cockpit.text.safe import safe_line
from cockpit.text.scrub import scrub_line

MOST_LINES: Final = 2000
"""Lines of a page at most (memory: a line is at most two blocks)."""


class Hit(NamedTuple):
    """Where a search stands: on a match, or (``found`` False) where its time budget ran out.

    ``offset`` is the start of the matching line, or where to go on; ``end`` is where the next
    line starts: go on from there for the next match, or ``back`` from ``offset``.
    """

    found: bool
    offset: int
    end: int
    line: SafeText | None = None


def show(raw: bytes) -> SafeText:
    """Return one raw line as it may be shown: safe, secrets masked."""
    return _show_short(raw) if len(raw) <= _SHORT else _show(raw)


def _show(raw: bytes) -> SafeText:
    return scrub_line(safe_line(raw))


_SHORT: Final = 1024
_show_short = lru_cache(maxsize=2048)(_show)


@dataclass(frozen=True)
class LogFile:
    """One log file, by path."""

    path: str | Path

    def tail(self, count: int) -> LogPage:
        """Return the last ``count`` lines; a last line without line break is one of them."""
        with open_regular(str(self.path)) as (fd, status):
            lines = lines_before(fd, status.st_size, min(count, MOST_LINES))
            return _page(lines, status.st_size, status.st_size)

    def page(self, offset: int, count: int, back: bool = False) -> LogPage:
        """Return ``count`` lines from the one at ``offset`` on, or those that end before it.

        ``offset`` is a byte offset, at best one that a page has given; others are moved back
        to the start of their line. Beyond the end (a truncated file) it means the end.
        """
        count = min(count, MOST_LINES)
        with open_regular(str(self.path)) as (fd, status):
            size = status.st_size
            at = line_start(fd, offset, size)
            lines = lines_before(fd, at, count) if back else lines_from(fd, at, size, count)
            return _page(lines, at, size)

    def search(
        self,
        pattern: str,
        offset: int,
        back: bool = False,
        budget_s: float = 0.2,
        regex: bool = False,
        ignore_case: bool = True,
    ) -> Hit | None:
        """Find the next line with ``pattern`` at or after ``offset`` (``back``: before it).

        Stops after about ``budget_s`` seconds with ``Hit(found=False, offset)``: search again
        from there. ``None``: there is no match from ``offset`` to the end (the beginning).
        Colours do not hide a match. Raises ``ValueError`` for a bad regular expression.
        """
        matcher = Matcher.of(pattern, regex, ignore_case)
        with open_regular(str(self.path)) as (fd, status):
            at = line_start(fd, offset, status.st_size)
            stop = scan(fd, matcher, at, status.st_size, back, budget_s)
        if stop is None:
            return None
        if stop.line is None:
            return Hit(False, stop.at, stop.at)
        return Hit(True, stop.line.start, stop.line.end, show(stop.line.data))


def _page(lines: list[RawLine], at: int, size: int) -> LogPage:
    return LogPage(
        lines=tuple(show(line.data) for line in lines),
        offsets=tuple(line.start for line in lines),
        start=lines[0].start if lines else at,
        end=lines[-1].end if lines else at,
        size=size,
    )


CHUNK: Final = 16 * BLOCK
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


class ScanStop(NamedTuple):
    """Where a scan stopped: at a matching ``line`` that starts at ``at``, or out of time."""

    at: int
    line: RawLine | None


@dataclass(frozen=True)
class Matcher:
    """Tells where in some bytes a pattern is found, first or last."""

    find: Callable[[bytes], int]
    find_last: Callable[[bytes], int]

    @staticmethod
    def of(pattern: str, regex: bool, ignore_case: bool) -> Matcher:
        """Return the matcher of a literal or of a regular expression (``ValueError``).

        Case is ignored for ASCII letters. An expression is matched against bytes in UTF-8.
        """
        raw = pattern.encode()
        if not raw:
            raise ValueError("nothing to search for")
        if regex:
            return _regex(pattern, ignore_case)
        if not ignore_case:
            return Matcher(lambda data: data.find(raw), lambda data: data.rfind(raw))
        low = raw.lower()
        return Matcher(lambda data: data.lower().find(low), lambda data: data.lower().rfind(low))


def _regex(pattern: str, ignore_case: bool) -> Matcher:
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    try:
        compiled = re.compile(pattern.encode(), flags)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error

    def first(data: bytes) -> int:
        found = compiled.search(data)
        return -1 if found is None else found.start()

    def last(data: bytes) -> int:
        return max((found.start() for found in compiled.finditer(data)), default=-1)

    return Matcher(first, last)


def scan(
    fd: int, matcher: Matcher, at: int, size: int, back: bool, budget_s: float
) -> ScanStop | None:
    """Scan from ``at``, the start of a line; ``None`` when all was seen without a match.

    At least one chunk is looked at, whatever the budget.
    """
    until = time.monotonic() + budget_s
    find = matcher.find_last if back else matcher.find
    for start, data in _backwards(fd, at, size) if back else _forwards(fd, at, size):
        found = _find(find, data)
        if found is not None:
            line = lines_from(fd, line_start(fd, start + found, size), size, 1)[0]
            return ScanStop(line.start, line)
        at = start if back else start + len(data)
        if time.monotonic() >= until:
            return ScanStop(at, None)
    return None


def _forwards(fd: int, at: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield chunks that start and end where lines do."""
    while at < size:
        edge = min(size, at + CHUNK)
        end = edge if edge == size else line_start(fd, edge, size)
        data = read_at(fd, at, max(end, at + 1))
        if not data:
            return
        yield at, data
        at += len(data)


def _backwards(fd: int, at: int, size: int) -> Iterator[tuple[int, bytes]]:
    while at > 0:
        start = line_start(fd, max(0, at - CHUNK), size)
        data = read_at(fd, start, at)
        if not data:
            return
        yield start, data
        at = start


def _find(find: Callable[[bytes], int], data: bytes) -> int | None:
    """Return where in ``data`` a match begins, colours not counted when matching."""
    coloured = b"\x1b[" in data
    at = find(_COLOUR.sub(b"", data) if coloured else data)
    if at < 0:
        return None
    removed = 0
    for code in _COLOUR.finditer(data) if coloured else ():
        if code.start() - removed > at:
            break
        removed += len(code.group())
    return at + removed
