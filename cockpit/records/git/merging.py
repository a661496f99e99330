"""Joins what two people added to one file: every line of both is kept, entries stay whole.

Git's own ``merge=union`` drops lines that both entries happen to share and mixes the rest, so it
is not used. Pure; bytes in, bytes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

Lines = Sequence[bytes]


class _Hunk(NamedTuple):
    """``base[start:end]`` became ``lines``."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return ``base`` with both sides' changes; where they meet, theirs stand before ours.

    What both added alike is added once. Where both changed the same lines, both stay.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    lines = [text.split(b"\n") for text in (base, ours, theirs)]
    return b"\n".join(_merged(*lines))


def adds_nothing(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Return whether everything that was changed from ``base`` to ``ours`` is in ``theirs``."""
    return merge(base, ours, theirs) == theirs


def _merged(base: Lines, ours: Lines, theirs: Lines) -> list[bytes]:
    mine, yours = _insertion(base, ours), _insertion(base, theirs)
    if mine is None or yours is None:
        return list(_join(base, _hunks(base, ours), _hunks(base, theirs)))
    block, other = _block(base, ours, mine), _block(base, theirs, yours)
    if _within(block.lines, other.lines):
        return list(theirs)
    if _within(other.lines, block.lines):
        return list(ours)
    first, second = (block, other) if block.start < other.start else (other, block)
    between = base[first.start : second.start]
    rest = base[second.start :]
    return [*base[: first.start], *first.lines, *between, *second.lines, *rest]


def _insertion(base: Lines, other: Lines) -> tuple[int, int] | None:
    """Return the first and last place in ``base`` at which one block was put in, if so."""
    prefix = _common(base, other)
    suffix = _common(base[::-1], other[::-1])
    if prefix + suffix < len(base) or len(other) <= len(base):
        return None
    return len(base) - suffix, prefix


def _common(one: Lines, two: Lines) -> int:
    pairs = enumerate(zip(one, two, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(two)))


def _block(base: Lines, other: Lines, places: tuple[int, int]) -> _Hunk:
    """Return the inserted block, of its equal readings the one that begins with a heading.

    A block whose last line is the one before it can as well be read one line higher; put there,
    another entry would fall between its lines.
    """
    longer = len(other) - len(base)
    readings = [
        _Hunk(place, place, tuple(other[place : place + longer]))
        for place in range(places[1], places[0] - 1, -1)
    ]
    headed = (each for each in readings if each.lines[0].lstrip().startswith(b"#"))
    return next(headed, readings[0])


def _within(block: Lines, other: Lines) -> bool:
    """Return whether the block, blank lines around it aside, stands in ``other`` as a whole."""
    filled = [n for n, line in enumerate(block) if line.strip()]
    wanted = list(block[filled[0] : filled[-1] + 1]) if filled else []
    size = len(wanted)
    return any(list(other[n : n + size]) == wanted for n in range(len(other) - size + 1))


def _hunks(base: Lines, other: Lines) -> list[_Hunk]:
    prefix = _common(base, other)
    room = min(len(base), len(other)) - prefix
    suffix = min(room, _common(base[::-1], other[::-1]))
    middle = base[prefix : len(base) - suffix], other[prefix : len(other) - suffix]
    matcher = SequenceMatcher(None, *middle, autojunk=False)
    return [
        _Hunk(prefix + a, prefix + b, tuple(middle[1][c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _join(base: Lines, mine: list[_Hunk], yours: list[_Hunk]) -> Iterator[bytes]:
    """Yield the lines with all hunks done; those that meet are joined region by region."""
    place = 0
    mine, yours = list(mine), list(yours)
    while mine or yours:
        start, end, ours, theirs = _region(mine, yours)
        yield from base[place:start]
        yield from _both(base, start, end, ours, theirs)
        place = end
    yield from base[place:]


def _region(mine: list[_Hunk], yours: list[_Hunk]) -> tuple[int, int, list[_Hunk], list[_Hunk]]:
    """Take the next hunks that touch one another off both lists."""
    start = min(hunks[0].start for hunks in (mine, yours) if hunks)
    end = start
    taken: tuple[list[_Hunk], list[_Hunk]] = ([], [])
    moved = True
    while moved:
        moved = False
        for hunks, kept in zip((mine, yours), taken, strict=True):
            while hunks and hunks[0].start <= end:
                kept.append(hunks.pop(0))
                end = max(end, kept[-1].end)
                moved = True
    return start, end, *taken


def _both(
    base: Lines, start: int, end: int, mine: list[_Hunk], yours: list[_Hunk]
) -> Iterator[bytes]:
    ours, theirs = (list(_applied(base, start, end, hunks)) for hunks in (mine, yours))
    if not mine or _within(ours, theirs):
        yield from theirs
    elif not yours or _within(theirs, ours):
        yield from ours
    else:
        yield from theirs
        yield from ours


def _applied(base: Lines, start: int, end: int, hunks: list[_Hunk]) -> Iterator[bytes]:
    for hunk in hunks:
        yield from base[start : hunk.start]
        yield from hunk.lines
        start = hunk.end
    yield from base[start:end]
