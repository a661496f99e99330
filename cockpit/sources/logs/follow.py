r"""What is new in a log since the last look: through rotation, truncation and replacement.

Only complete states count as new: text that ends in a line break or, as progress bars do it,
in ``\r``; what is written behind the last of them is kept apart. Nothing is kept open between
two looks.

A look's time is bounded, whatever is written meanwhile: the newest lines are parsed, the bytes
before them are only searched for alarming lines, hundreds of times faster. What was skipped is
named by its range. Where a loss stopped being a number is looked for backwards. Everything blocks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.logtext import Alarm, Skipped
from cockpit.model.place import Place
from cockpit.sources.logs.file import show
from cockpit.sources.logs.ranged import (
    BLOCK,
    Opened,
    Ranged,
    Span,
    Stat,
    Wish,
    lines_before,
    state_start,
)

FIRST: Final = 16_384
"""Bytes at the end of the file that the first look reads (some hundred lines, times 1,000 runs)."""
MOST: Final = 2_097_152
"""Bytes that one look reads at most; the rest follows at the next."""
_GUARD: Final = 64
_BREAKS = re.compile(rb"[\r\n]+")


class News(NamedTuple):
    """One look at a log: its new states (oldest first), its last lines, size, mtime, inode.

    ``first`` tells that the states come from the first look: they may be old.
    """

    states: tuple[bytes, ...]
    tail: tuple[bytes, ...]
    size: int
    mtime: float
    inode: int
    first: bool
    starts: tuple[int, ...] = ()
    """Where each line of ``tail`` starts; the last one ends at ``size``."""
    skipped: tuple[int, int] | None = None
    """The bytes ``[begin, end)`` of the file right before the states that were not read."""
    rest: bytes = b""
    """What stands behind the last line break: half a line, or the newest state of a bar."""
    begin: int = 0
    """Where the log begins that is still kept."""
    anew: bool = False
    """True where what was read of it stands there no more: it was truncated, or rewritten."""


class Follower:
    """Follows one log. Blocking; raises ``OSError``.

    It remembers where it was and the last bytes before that place. If they are no longer
    there, the file was truncated or rewritten and is read from its beginning, whatever its
    inode says (an inode is soon reused).
    """

    def __init__(self, log: Ranged, from_start: bool = False, whole: int = FIRST) -> None:
        """``whole``: a first look reads all of a file of up to so many bytes."""
        self.log = log
        self._whole = whole
        self._inode: tuple[int, int] | None = (0, 0) if from_start else None
        self._offset = 0
        self._guard = b""
        self._rest = b""
        self.begin = 0
        """The offset in the first file from which all states were read."""
        self._version: Hashable = None
        self._behind = False
        self._limit: int | None = None
        self._skipped: tuple[int, int] | None = None
        self._anew = False
        self.moved_to: str | None = None
        """Where it lies since it was renamed under its writer, as long as no new one is there."""

    def look(self, tail: int, limit: int | None = None) -> News | None:
        """Return what is new and the last ``tail`` lines; ``None`` if nothing has changed.

        Of more than ``limit`` bytes only the newest are read, and the others are skipped.
        """
        self._limit, self._skipped, self._anew = limit, None, False
        with self._open(limit) as log:
            stat = log.stat
            if stat.version == self._version and not self._behind:
                return None
            first = self._inode is None
            states = self._advance(log)
            lines = lines_before(log, stat.size, tail)
            self._version = stat.version
        shown = tuple(line.data for line in lines)
        starts = tuple(line.start for line in lines)
        inode, skipped, rest = stat.identity[1], self._skipped, self._rest
        size, mtime, begin = stat.size, stat.mtime, stat.begin
        return News(
            states, shown, size, mtime, inode, first, starts, skipped, rest, begin, self._anew
        )

    @contextmanager
    def _open(self, limit: int | None) -> Iterator[Opened]:
        """Open the log; one that was renamed under its writer where it lies now."""
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(self.log.open(self.wish(limit)))
                missing = None
            except FileNotFoundError as error:
                missing = error
            moved = None
            if missing is not None or not opened.stat.size:  # a rotation has begun an empty one
                # It lies where the file now is that was read, or where its writer has one open.
                same = (each for each, stat in self._beside() if stat.identity == self._inode)
                found = next(same, None) if (missing is not None) else None
                moved = found or self.log.renamed()
            if moved is not None:
                opened = stack.enter_context(moved.open())
            elif missing is not None:
                raise missing
            self.moved_to = None if moved is None else moved.path
            yield opened

    def has_read(self, place: Place, version: Hashable) -> bool:
        """Tell whether all of the file at a place was read when it was of this ``version``."""
        return version == self._version and not self._behind and place == self.log.place

    @property
    def at(self) -> Hashable:
        """How far it is, and in what: as long as that is the same, so is ``wish``."""
        return self._version, self._offset, len(self._guard), self._behind, self.log.place

    def wish(self, limit: int | None = None) -> Wish:
        """Return what the next look will need: usually only the bytes that are new."""
        if self._inode is None:
            return Wish((Span(0, last=max(FIRST, self._whole), to=BLOCK),))
        start = self._offset - len(self._guard)
        new = Span(start, last=min(limit or MOST, MOST) + _GUARD)
        unless = None if self._behind else self._version
        return Wish((Span(start, self._offset), new), unless)

    def _advance(self, log: Opened) -> tuple[bytes, ...]:
        stat = log.stat
        states: tuple[bytes, ...] = ()
        if self._inode is None:
            size, begin = log.stat.size, log.stat.begin
            small = size - begin <= self._whole
            self.begin = self._offset = begin if small else state_start(log, size - FIRST, size)
            self._skipped = (0, self.begin) if self.begin else None
        elif self._inode != stat.identity:
            states = self._rest_of_former(self._inode)
            self._offset, self._guard = stat.begin, b""
        elif self._offset < stat.begin:  # dropped before it was read
            self._skipped = (self._offset, stat.begin)
            self._offset, self._guard = stat.begin, b""
        elif not self._unbroken(log):
            self._anew = True
            self._offset, self._guard = stat.begin, b""
        self._inode = stat.identity
        return states + self._read(log)

    def _unbroken(self, log: Opened) -> bool:
        """Tell whether the file still continues from where we were."""
        start = self._offset - len(self._guard)
        return log.stat.size >= self._offset and log.read(start, self._offset) == self._guard

    def _read(self, log: Opened) -> tuple[bytes, ...]:
        size = log.stat.size
        if self._limit is not None and size - self._offset > self._limit:
            self._skip_to(log, max(self._offset, state_start(log, size - self._limit, size)))
        data = log.read(self._offset, min(size, self._offset + MOST))
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._behind = len(data) == MOST
        if end == 0 and self._behind:
            end = MOST
        self._offset += end
        self._rest = b"" if self._behind else data[end:]
        if end:
            self._guard = (self._guard + data[:end])[-_GUARD:]
        return tuple(state for state in _BREAKS.split(data[:end]) if state)

    def _skip_to(self, log: Opened, offset: int) -> None:
        if offset > self._offset:
            begin = self._offset if self._skipped is None else self._skipped[0]
            self._skipped = (begin, offset)
            self._guard = log.read(max(log.stat.begin, offset - _GUARD), offset)
        self._offset = offset

    def _rest_of_former(self, inode: tuple[int, int]) -> tuple[bytes, ...]:
        """Read on in the file that was rotated away, if it lies beside the new one."""
        for other, stat in self._beside():
            if stat.identity != inode:
                continue
            with suppress(OSError), other.open() as log:
                states = self._read(log) if self._unbroken(log) else ()
                self._skipped = None  # its offsets are those of another file
                return states
        return ()

    def _beside(self) -> Sequence[tuple[Ranged, Stat]]:
        """Return the files whose names begin as its own does; none where that cannot be told."""
        with suppress(OSError):
            return self.log.beside(Path(self.log.place.path).stem)
        return ()


Find = Callable[[bytes], Sequence[Alarm]]
"""Returns the alarming lines of some bytes."""

PARSE_S: Final = 0.3
"""Seconds of a core that all logs together may take to be read line by line, at each look."""
SCAN_S: Final = 0.2
"""Seconds that a look may search what it skips."""
LEAST: Final = 16_384
"""Bytes of a log that are read line by line in any case."""
MOST_SEARCHED: Final = 2_097_152
SEARCH_CHUNK: Final = 1_048_576
"""Bytes that are searched at once, the newest first."""
LONGEST_LINE: Final = 4000
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
        return int(min(MOST_SEARCHED, max(LEAST, self.rate * PARSE_S / max(1, share))))

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
            start = max(first, end - SEARCH_CHUNK)
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
        at + alarm.begin, data[alarm.begin : min(alarm.end, alarm.begin + LONGEST_LINE)], alarm.name
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


EARLIER_CHUNK: Final = 1 << 20
"""Bytes that are read at once, from the end upwards."""
MOST_EARLIER: Final = 16 << 20
"""Bytes before the known lines that are looked through at most."""
EARLIER_SECONDS: Final = 2.0
"""Seconds that looking may take: half of what a look at a log is given."""
CLEAN: Final = 400
"""Finite lines in a row above which no line of the same trouble is looked for."""
STATES: Final = 4000
"""States given back at most before the first broken line."""

_LINE = re.compile(rb"[^\r\n]+")
_LOSS = re.compile(rb"(?i)loss|grad_?norm")
_BROKEN = re.compile(
    rb"(?i)(?:loss|entropy|grad_?norm)[^\d\r\n]{0,12}?(?:nan|[-+]?inf(?:inity)?)\b"
)


class Earlier(NamedTuple):
    """States around the first broken line, oldest first; ``begin`` is where the reading began.

    ``found`` is False where no broken line stands before the known ones. ``begin`` is 0 when
    everything before was looked through without so many finite lines in a row, which end it.
    """

    states: tuple[bytes, ...]
    begin: int
    found: bool


def before(log: Ranged, end: int) -> Earlier:
    """Look upwards from offset ``end`` for the first broken line of the same trouble.

    Raises ``OSError``.
    """
    kept: list[bytes] = []
    clean, found, at = 0, False, end
    until = time.monotonic() + EARLIER_SECONDS
    with log.open() as opened:
        first = opened.stat.begin
        while at > first and end - at < MOST_EARLIER and time.monotonic() < until:
            start = state_start(opened, max(first, at - EARLIER_CHUNK), opened.stat.size)
            start = start if start < at else first
            lines = list(_LINE.finditer(opened.read(start, at)))
            for each in reversed(lines):
                line = each[0]
                if _BROKEN.search(line):
                    kept, clean, found = [], 0, True
                elif _LOSS.search(line):
                    clean += 1
                kept.append(line)
                if clean >= CLEAN or len(kept) > STATES:
                    return Earlier(tuple(reversed(kept)), max(start + each.start(), 1), found)
            at = start
    return Earlier(tuple(reversed(kept)), at, found)
