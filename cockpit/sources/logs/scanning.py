"""Scanning a log for a literal or a regular expression, a chunk of whole lines at a time.

An expression can take for ever on a line that almost matches, and holds up every thread of its
program meanwhile. So where people type one, ``python -m cockpit.sources.logs.scanning`` looks for
it: a program of its own, that can be killed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from cockpit.model.place import place_of
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.lines import BLOCK, RawLine, line_start, lines_from
from cockpit.sources.logs.ranged import Opened

CHUNK: Final = 16 * BLOCK
COLOUR: Final = re.compile(rb"\x1b\[[0-9;:]*m")


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
        return next(in_lines(compiled, data), -1)

    def last(data: bytes) -> int:
        return max(in_lines(compiled, data), default=-1)

    return Matcher(first, last)


def in_lines(compiled: re.Pattern[bytes], data: bytes) -> Iterator[int]:
    r"""Yield where matches begin, ascending, none across the end of a line (where ``\s`` is)."""
    at = 0
    while (found := compiled.search(data, at)) is not None:
        broken = data.find(b"\n", found.start(), found.end())
        if broken >= 0:
            found = compiled.search(data, found.start(), broken)
        if found is not None:
            yield found.start()
        at = broken + 1 if found is None else max(found.end(), found.start() + 1)


def scan(
    log: Opened, matcher: Matcher, at: int, size: int, back: bool, budget_s: float
) -> ScanStop | None:
    """Scan from ``at``, the start of a line; ``None`` when all was seen without a match.

    At least one chunk is looked at, whatever the budget.
    """
    until = time.monotonic() + budget_s
    find = matcher.find_last if back else matcher.find
    for start, data in _backwards(log, at, size) if back else forwards(log, at, size):
        found = _find(find, data)
        if found is not None:
            line = lines_from(log, line_start(log, start + found, size), size, 1)[0]
            return ScanStop(line.start, line)
        at = start if back else start + len(data)
        if time.monotonic() >= until:
            return ScanStop(at, None)
    return None


def forwards(log: Opened, at: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield chunks that start and end where lines do."""
    while at < size:
        edge = min(size, at + CHUNK)
        end = edge if edge == size else line_start(log, edge, size)
        data = log.read(at, max(end, at + 1))
        if not data:
            return
        yield at, data
        at += len(data)


def _backwards(log: Opened, at: int, size: int) -> Iterator[tuple[int, bytes]]:
    first = log.stat.begin
    while at > first:
        start = line_start(log, max(first, at - CHUNK), size)
        data = log.read(start, at)
        if not data:
            return
        yield start, data
        at = start


def _find(find: Callable[[bytes], int], data: bytes) -> int | None:
    """Return where in ``data`` a match begins, colours not counted when matching."""
    coloured = b"\x1b[" in data
    at = find(COLOUR.sub(b"", data) if coloured else data)
    if at < 0:
        return None
    removed = 0
    for code in COLOUR.finditer(data) if coloured else ():
        if code.start() - removed > at:
            break
        removed += len(code.group())
    return at + removed


def main() -> int:
    """Scan as five words on standard input ask: file, expression, offset, back or not, seconds.

    Prints one JSON document: where the scan stopped (``at``) and the matching line's ``end``,
    ``null`` when the seconds were over first; ``null`` alone: there is no match.
    """
    place, pattern, offset, back, budget = json.load(sys.stdin)
    matcher = Matcher.of(pattern, True, True)
    with log_at(place_of(place)).open() as log:
        size = log.stat.size
        stop = scan(log, matcher, line_start(log, offset, size), size, back, budget)
    end = None if stop is None or stop.line is None else stop.line.end
    json.dump(None if stop is None else {"at": stop.at, "end": end}, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
