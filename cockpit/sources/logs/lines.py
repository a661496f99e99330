"""Where the lines of a file begin, found from any place in it, without an index.

A line ends at its line break. A line without one could be the whole file, so there is a second
rule: an aligned block of ``BLOCK`` bytes without any line break in it ends a piece of line. It
can be decided by looking at that block alone, so that reading forwards and backwards gives
the same pieces, and no piece is longer than two blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from typing import Final, NamedTuple

from cockpit.sources.logs.ranged import Opened

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
