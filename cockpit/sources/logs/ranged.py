"""A log as its readers see it, wherever it lies: opened for one look, measured, read in ranges.

Where its lines begin is found from any place in it, without an index.
"""

from __future__ import annotations

import errno
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice, pairwise, takewhile
from typing import Final, NamedTuple

from cockpit.model.place import Place

COUNTED: Final = 4_194_304
"""Bytes in which line breaks are counted at once."""


class Stat(NamedTuple):
    """What a log is at the moment of a look: ``size`` in bytes, ``mtime`` on this machine's clock.

    ``identity`` (device, inode) tells it from another file of its name; ``version`` is another
    one whenever anything has changed. Before ``begin`` nothing is kept any more.
    """

    size: int
    mtime: float
    identity: tuple[int, int]
    version: Hashable
    begin: int = 0


class Span(NamedTuple):
    """Bytes that a look will need: from ``begin`` to ``end`` (``None``: the end of the log).

    With ``last``, of those only its last so many. ``begin`` is moved back to a multiple of ``to``.
    """

    begin: int
    end: int | None = None
    last: int | None = None
    to: int = 1


class Wish(NamedTuple):
    """What one look is for: bytes that it needs ``unless`` the log's version is still this one.

    A hint, which saves trips to another machine: other bytes can be read as well.
    """

    spans: tuple[Span, ...] = ()
    unless: Hashable = None
    beside: str = ""
    """The beginning of the names that ``Ranged.beside`` will be asked for after this look."""


NOTHING: Final = Wish()


class Opened(ABC):
    """One look at a log. Every method raises ``OSError``."""

    stat: Stat

    @abstractmethod
    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if the log has become shorter."""

    def breaks_before(self, end: int) -> int:
        """Return how many line breaks stand before offset ``end``."""
        breaks, at = 0, self.stat.begin
        while at < end:
            data = self.read(at, min(end, at + COUNTED))
            if not data:
                break
            breaks += data.count(b"\n")
            at += len(data)
        return breaks

    def after_breaks(self, breaks: int) -> int | None:
        """Return the offset behind so many line breaks; ``None`` if there are fewer."""
        at, left = self.stat.begin, breaks
        while left > 0 and at < self.stat.size:
            data = self.read(at, min(self.stat.size, at + COUNTED))
            if not data:
                return None
            here = data.count(b"\n")
            if here >= left:
                return at + _behind(data, left)
            left, at = left - here, at + len(data)
        return at if left == 0 else None

    def find_there(
        self, raw: bytes, ignore_case: bool, begin: int, end: int, back: bool
    ) -> int | None:
        """Return where a text first stands in ``[begin, end)`` (``back``: last); ``None``: nowhere.

        For logs that are searched where they lie. Colours do not hide it. Raises ``OSError`` where
        that is not possible, as it is here: read the bytes.
        """
        raise OSError(errno.EOPNOTSUPP, "this log has to be read to be searched")


class Ranged(ABC):
    """One log: its place, and looks at it. Every method raises ``OSError``."""

    place: Place
    far: bool = False
    """True where reading costs trips to another machine."""

    @property
    def path(self) -> str:
        """How the log is named to people and in JSON."""
        return str(self.place)

    @abstractmethod
    def open(self, wish: Wish = NOTHING) -> AbstractContextManager[Opened]:
        """Look at it.

        Raises ``OSError`` (``strerror`` set) if it is not there or no regular file.
        """

    def newest(self) -> Ranged:
        """Return the newest log that its name, perhaps a pattern, matches; itself if none does."""
        return self

    def beside(self, prefix: str) -> Sequence[tuple[Ranged, Stat]]:
        """Return the files of its folder whose names begin so, itself among them."""
        return ()

    def renamed(self) -> Ranged | None:
        """Return where its writer goes on that has renamed it, or lost its name; else ``None``."""
        return None


def _behind(data: bytes, breaks: int) -> int:
    at = 0
    for _ in range(breaks):
        at = data.index(b"\n", at) + 1
    return at


class Stream(io.RawIOBase):
    """An opened log as a file object, for what reads only those (``gzip``)."""

    def __init__(self, log: Opened) -> None:
        super().__init__()
        self._log = log
        self._at = log.stat.begin

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill ``buffer``, a writable one, and return with how many bytes; 0 at the end."""
        room = memoryview(buffer)  # type: ignore[arg-type]
        data = self._log.read(self._at, min(self._log.stat.size, self._at + len(room)))
        room[: len(data)] = data
        self._at += len(data)
        return len(data)


BLOCK: Final = 65536
"""Bytes that are read at once."""
MOST_BLOCKS: Final = 64
"""Blocks that are read for one page at most: pages of giant lines have fewer of them."""

_STATE_ENDS: Final = re.compile(rb"[\r\n]")


class RawLine(NamedTuple):
    """The bytes of one line (or piece of line) with its line break, and where it starts."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """Where the next line starts."""
        return self.start + len(self.data)


def lines_before(log: Opened, end: int, count: int) -> list[RawLine]:
    """Return the last ``count`` lines that end at ``end`` or before, in the file's order.

    Fewer come back when they are so long that ``MOST_BLOCKS`` do not hold them.
    """
    blocks: list[bytes] = []
    breaks: list[int] = []
    first, start = log.stat.begin, end
    while start > first and len(breaks) < count and len(blocks) < MOST_BLOCKS:
        block_start = max(first, (start - 1) // BLOCK * BLOCK)
        data = log.read(block_start, start)
        breaks[:0] = [at for at in _breaks(block_start, data) if at < end]
        blocks.insert(0, data)
        start = block_start
    edges = breaks if start > first else [first, *breaks]
    return _cut(b"".join(blocks), start, edges, end)[-count:] if end > first and count > 0 else []


def lines_from(log: Opened, start: int, end: int, count: int) -> list[RawLine]:
    """Return the first ``count`` lines of ``[start, end)``; ``start`` begins a line.

    Fewer come back when they are so long that ``MOST_BLOCKS`` do not hold them.
    """
    bound = start + MOST_BLOCKS * BLOCK
    near = takewhile(lambda line: line.end <= bound, iter_lines(log, start, end))
    return list(islice(near, count))


def iter_lines(log: Opened, start: int, end: int) -> Iterator[RawLine]:
    """Yield the lines of ``[start, end)`` one after another; ``start`` begins a line."""
    rest, at = b"", start
    while at < end:
        block_start = max(log.stat.begin, at // BLOCK * BLOCK)
        data = log.read(at, min(end, at // BLOCK * BLOCK + BLOCK))
        if not data:
            break
        base = at - len(rest)
        whole = log.read(block_start, at) + data if at > block_start else data
        breaks = [edge for edge in _breaks(block_start, whole) if edge > at]
        at += len(data)
        lines = _cut(rest + data, base, [base, *breaks], at)
        rest = b"" if breaks and breaks[-1] == at else lines.pop().data
        yield from lines
    if rest:
        yield RawLine(at - len(rest), rest)


def line_start(log: Opened, offset: int, size: int) -> int:
    """Return where the line that holds byte ``offset`` begins."""
    first = log.stat.begin
    if offset <= first:
        return first
    at = min(offset, size)
    before = lines_before(log, at, 1)
    if not before:
        return first
    whole = at % BLOCK == 0 and at - BLOCK >= first
    piece_ends = whole and b"\n" not in log.read(at - BLOCK, at)
    return at if piece_ends or before[0].data.endswith(b"\n") else before[0].start


def state_start(log: Opened, offset: int, size: int) -> int:
    r"""Return where the line that holds byte ``offset`` begins, and never amid a ``\r`` state.

    A bar's line is read in pieces, and the first state of one is cut: ``600/5155`` of 4600.
    """
    at = line_start(log, offset, size)
    if at <= log.stat.begin or _STATE_ENDS.fullmatch(log.read(at - 1, at)):
        return at
    found = _STATE_ENDS.search(log.read(at, min(at + BLOCK, size)))
    return at if found is None else at + found.end()


def _breaks(start: int, data: bytes) -> list[int]:
    """Return where lines (or, a whole block long, pieces of one) end in ``data`` at ``start``."""
    found = []
    at = data.find(b"\n")
    while at >= 0:
        found.append(start + at + 1)
        at = data.find(b"\n", at + 1)
    if not found and len(data) == BLOCK:
        found.append(start + BLOCK)
    return found


def _cut(data: bytes, base: int, edges: list[int], end: int) -> list[RawLine]:
    """Cut ``data``, which lies at ``base``, at ``edges`` (ascending) up to ``end``."""
    bounds = [edge for edge in edges if edge < end] + [end]
    return [RawLine(first, data[first - base : last - base]) for first, last in pairwise(bounds)]
