"""Searching a log for a literal or a regular expression, and counting the lines that match.

A log is read a chunk of whole lines at a time; nothing is indexed. An expression can take for ever
on a line that almost matches, and holds up every thread of its program meanwhile. So what a person
types is looked for by ``python -m cockpit.sources.logs.search``, which can be killed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from cockpit.model.logtext import Hit, Matches
from cockpit.model.place import place_of
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.sources.logs.ranged import BLOCK, Opened, Ranged, RawLine, line_start, lines_from
from cockpit.sources.logs.remote import log_at

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


def _scan_asked(place: str, pattern: str, offset: int, back: bool, budget: float) -> object:
    """Return where a scan stopped (``at``) and the matching line's ``end``, as JSON has it.

    ``end`` is ``None`` when the seconds were over first; ``None`` alone: there is no match.
    """
    matcher = Matcher.of(pattern, True, True)
    with log_at(place_of(place)).open() as log:
        size = log.stat.size
        stop = scan(log, matcher, line_start(log, offset, size), size, back, budget)
    end = None if stop is None or stop.line is None else stop.line.end
    return None if stop is None else {"at": stop.at, "end": end}


MOST_COUNTED: Final = 20_000
"""Places of one answer, about: then it says how far it came."""
FAR_COUNTED: Final = 4 << 20
"""Newest bytes of a log on another machine that are counted."""
FindMatches = Callable[[bytes], Iterator[int]]
"""Yields where in some bytes matches begin, ascending."""


def count_from(log: Ranged, pattern: str, regex: bool, offset: int, budget_s: float) -> Matches:
    """Return where matching lines start, from ``offset`` on, for about ``budget_s`` seconds.

    Case is ignored for ASCII letters and colours hide nothing, as in a search. Raises ``OSError``,
    and ``ValueError`` for a bad expression.
    """
    found = _finder(pattern, regex)
    until = time.monotonic() + budget_s
    with log.open() as opened:
        size = opened.stat.size
        first = max(offset, size - FAR_COUNTED) if log.far else offset
        begin = reached = line_start(opened, first, size)
        offsets: list[int] = []
        for start, data in forwards(opened, begin, size):
            offsets += (start + at for at in _lines(found, data))
            reached = start + len(data)
            if len(offsets) >= MOST_COUNTED or time.monotonic() >= until:
                break
        if reached == size:  # an unfinished line is counted again once it is whole
            reached = line_start(opened, size, size)
    return Matches(tuple(offsets), begin, reached, size)


def _lines(found: FindMatches, data: bytes) -> Iterator[int]:
    """Yield where in ``data`` lines with a match start; it starts and ends where lines do."""
    if b"\x1b[" in data:
        at = 0
        for line in data.splitlines(keepends=True):
            if next(found(COLOUR.sub(b"", line)), None) is not None:
                yield at
            at += len(line)
        return
    end = 0
    for at in found(data):
        if at >= end:
            yield data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at) + 1 or len(data)


def _finder(pattern: str, regex: bool) -> FindMatches:
    Matcher.of(pattern, regex, True)
    form = pattern.encode() if regex else re.escape(pattern.encode())
    compiled = re.compile(form, re.MULTILINE | re.IGNORECASE)
    if regex:
        return lambda data: in_lines(compiled, data)
    return lambda data: _literal(pattern.encode().lower(), data.lower())


def _literal(low: bytes, data: bytes) -> Iterator[int]:
    at = data.find(low)
    while at >= 0:
        yield at
        at = data.find(low, at + 1)


SEARCH_SECONDS: Final = 1.0
"""Seconds that one program searches: then it tells how far, and the next one goes on."""
PATIENCE: Final = 6.0
"""Seconds after which an expression is given up: one chunk alone takes it that long."""
TOO_SLOW: Final = "this expression is too slow on these lines; use a simpler one or plain words"

Words = list[str | int | float | bool]


async def find_expression(log: Ranged, pattern: str, offset: int, back: bool) -> Hit | None:
    """Find the next line that matches, as ``LogFile.search`` does, without its text.

    Raises ``ValueError`` for a bad expression, and for one that takes too long.
    """
    Matcher.of(pattern, True, True)
    words: Words = [str(log.place), pattern, offset, back, SEARCH_SECONDS]
    found = json.loads(await _asked(["scan", *words]))
    if found is None:
        return None
    end = found["end"]
    return Hit(end is not None, found["at"], found["at"] if end is None else end)


async def count_expression(log: Ranged, pattern: str, offset: int) -> Matches:
    """Return where matching lines start, as ``counting.count_from`` does; raises ``ValueError``."""
    Matcher.of(pattern, True, True)
    words: Words = [str(log.place), pattern, offset, SEARCH_SECONDS]
    offsets, begin, reached, size = json.loads(await _asked(["count", *words]))
    return Matches(tuple(offsets), begin, reached, size)


async def _asked(words: Words) -> str:
    """Return what a program of ours answers to these words, in JSON; raises ``ValueError``."""
    done = await run_command(own_python(__name__), deadline=PATIENCE, stdin=json.dumps(words))
    if done.timed_out:
        raise ValueError(TOO_SLOW)
    if not done.ok:
        raise ValueError("the log could not be searched")
    return done.text


def main() -> int:
    """Do what the words on standard input ask: scan or count, file, expression and so on.

    Prints one JSON document.
    """
    what, place, *words = json.load(sys.stdin)
    if what == "scan":
        answer = _scan_asked(place, *words)
    else:
        pattern, offset, budget = words
        answer = count_from(log_at(place_of(place)), pattern, True, offset, budget)
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
