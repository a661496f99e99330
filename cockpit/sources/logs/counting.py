"""Counting the lines of a log that match, a moment at a time; nothing is indexed.

A person's expression is counted by ``python -m cockpit.sources.logs.counting``, which can be
killed (see ``scanning.py``).
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.model.logtext import Matches
from cockpit.model.place import place_of
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.lines import line_start
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.scanning import COLOUR, Matcher, forwards, in_lines

MOST: Final = 20_000
"""Places of one answer, about: then it says how far it came."""
FAR: Final = 4 << 20
"""Newest bytes of a log on another machine that are counted."""
Found = Callable[[bytes], Iterator[int]]
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
        first = max(offset, size - FAR) if log.far else offset
        begin = reached = line_start(opened, first, size)
        offsets: list[int] = []
        for start, data in forwards(opened, begin, size):
            offsets += (start + at for at in _lines(found, data))
            reached = start + len(data)
            if len(offsets) >= MOST or time.monotonic() >= until:
                break
        if reached == size:  # an unfinished line is counted again once it is whole
            reached = line_start(opened, size, size)
    return Matches(tuple(offsets), begin, reached, size)


def _lines(found: Found, data: bytes) -> Iterator[int]:
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


def _finder(pattern: str, regex: bool) -> Found:
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


def main() -> int:
    """Count as four words on standard input ask: file, expression, offset, seconds."""
    place, pattern, offset, budget = json.load(sys.stdin)
    json.dump(count_from(log_at(place_of(place)), pattern, True, offset, budget), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
