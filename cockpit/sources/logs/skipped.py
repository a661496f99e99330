"""What a look at a log does not read line by line: how much it may read, and what it has left out.

A look's time is bounded, whatever is written meanwhile: the newest lines are parsed, the bytes
before them are only searched for alarming lines, hundreds of times faster. Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cockpit.model.logtext import Alarm, Skipped
from cockpit.sources.logs.file import show
from cockpit.sources.logs.ranged import Ranged

Find = Callable[[bytes], Sequence[Alarm]]
"""Returns the alarming lines of some bytes."""

PARSE_S: Final = 0.3
"""Seconds of a core that all logs together may take to be read line by line, at each look."""
SCAN_S: Final = 0.2
"""Seconds that a look may search what it skips."""
LEAST: Final = 16_384
"""Bytes of a log that are read line by line in any case."""
MOST: Final = 2_097_152
PIECE: Final = 1_048_576
"""Bytes that are searched at once, the newest first."""
LINE: Final = 4000
"""Bytes of an alarming line that are kept."""
ENDS: Final = 5
"""Alarming lines that are kept from either end of what was skipped."""
RANGES: Final = 5
_FIRST_RATE: Final = 1e6


@dataclass
class Budget:
    """How many bytes of a log can be read line by line in its share of the time.

    Learned from what the looks before have taken: lines of one trainer cost ten times those of
    another, and other logs are read at the same time.
    """

    rate: float = _FIRST_RATE
    busy: bool = False
    """True while its log takes a good part of the time."""

    def bytes(self, share: int) -> int:
        """Return how many may be read when the time is shared by so many busy logs."""
        return int(min(MOST, max(LEAST, self.rate * PARSE_S / max(1, share))))

    def took(self, size: int, seconds: float) -> None:
        """Learn that so many bytes took so long (seconds of a core)."""
        self.busy = seconds > PARSE_S / 10
        if size >= LEAST and seconds > 0:
            self.rate = min(size / seconds, 2 * self.rate)


class Line(NamedTuple):
    """An alarming line that was skipped."""

    offset: int
    raw: bytes
    name: str


class Search(NamedTuple):
    """The first and last alarming lines of a range, how many in all, and what was not searched."""

    lines: tuple[Line, ...]
    total: int
    unscanned: int


def search(log: Ranged, begin: int, end: int, find: Find, seconds: float) -> Search:
    """Search the bytes ``[begin, end)`` of a file for alarming lines, the newest bytes first.

    Stops after about ``seconds``; raises ``OSError``.
    """
    pieces: list[list[Line]] = []
    until = time.monotonic() + seconds
    with log.open() as opened:
        first = max(begin, opened.stat.begin)
        while end > first and time.monotonic() < until:
            start = max(first, end - PIECE)
            data = opened.read(start, end)
            edge = data.find(b"\n") + 1 if start > first else 0
            edge = edge if edge < len(data) else 0
            data, end = data[edge:], start + edge
            pieces.append([_line(data, end, each) for each in find(data)])
    lines = [line for piece in reversed(pieces) for line in piece]
    ends = lines if len(lines) <= 2 * ENDS else [*lines[:ENDS], *lines[-ENDS:]]
    return Search(tuple(ends), len(lines), end - begin)


def _line(data: bytes, at: int, alarm: Alarm) -> Line:
    return Line(
        at + alarm.begin, data[alarm.begin : min(alarm.end, alarm.begin + LINE)], alarm.name
    )


@dataclass
class Left:
    """What was left out of one file since it is followed: a bounded account."""

    bytes: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    unscanned: int = 0
    alarms: int = 0
    found: list[Skipped.Line] = field(default_factory=list)
    dropped: int = 0
    """Bytes before the first one that is still kept."""

    def add(self, begin: int, end: int, searched: Search) -> None:
        """Take in a range and what was found in it."""
        self.bytes += end - begin
        self.ranges = [*self.ranges, (begin, end)][-RANGES:]
        self.unscanned += searched.unscanned
        self.alarms += searched.total
        new = [
            Skipped.Line(offset=line.offset, name=line.name, text=show(line.raw).plain)
            for line in searched.lines
        ]
        found = [*self.found, *new]
        self.found = found if len(found) <= 2 * ENDS else [*found[:ENDS], *found[-ENDS:]]

    @property
    def value(self) -> Skipped | None:
        """What there is to say; ``None`` where nothing was left out."""
        if not self.bytes and not self.dropped:
            return None
        return Skipped(
            bytes=self.bytes,
            ranges=tuple(self.ranges),
            unscanned=self.unscanned,
            alarms=self.alarms,
            found=tuple(self.found),
            dropped=self.dropped,
        )
