"""Search through a file of any size in both directions, a chunk at a time, for a while."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from cockpit.sources.log_lines import BLOCK, RawLine, line_start, lines_from, read_at

CHUNK: Final = 16 * BLOCK
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


class Stop(NamedTuple):
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
        if not pattern:
            raise ValueError("nothing to search for")
        return _regex(pattern, ignore_case) if regex else _literal(pattern, ignore_case)


def _literal(pattern: str, ignore_case: bool) -> Matcher:
    raw = pattern.encode()
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


def scan(fd: int, matcher: Matcher, at: int, size: int, back: bool, budget_s: float) -> Stop | None:
    """Scan from ``at``, the start of a line; ``None`` when all was seen without a match.

    At least one chunk is looked at, whatever the budget.
    """
    until = time.monotonic() + budget_s
    find = matcher.find_last if back else matcher.find
    for start, data in _backwards(fd, at, size) if back else _forwards(fd, at, size):
        found = _find(find, data)
        if found is not None:
            line = lines_from(fd, line_start(fd, start + found, size), size, 1)[0]
            return Stop(line.start, line)
        at = start if back else start + len(data)
        if time.monotonic() >= until:
            return Stop(at, None)
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
    plain, places = _without_colour(data)
    at = find(plain)
    return None if at < 0 else _place_in(places, at)


def _without_colour(data: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """Return ``data`` without colours, and (place after a colour, bytes removed before it)."""
    if b"\x1b[" not in data:
        return data, []
    places, removed = [], 0
    for code in _COLOUR.finditer(data):
        removed += len(code.group())
        places.append((code.end() - removed, removed))
    return _COLOUR.sub(b"", data), places


def _place_in(places: list[tuple[int, int]], at: int) -> int:
    """Return where in the coloured bytes the plain byte ``at`` stands."""
    removed = 0
    for place, so_far in places:
        if place > at:
            break
        removed = so_far
    return at + removed
