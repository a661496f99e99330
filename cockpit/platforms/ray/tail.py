"""What is new in the end of a log that can only be had as "its last lines": no offsets, no size.

Pure. The new end overlaps the former one, or more was written between the two looks than the
end holds; then some lines are lost, and that is said.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST: Final = 60
"""Lines of a first look; where they are short more are asked for at once."""
MOST: Final = 2000
WANTED: Final = 60_000
"""Bytes that a look should bring at most; a single long line may be more."""
FEWEST: Final = 20


class Grown(NamedTuple):
    """What a look brought: the bytes that were not there before, and whether some are missing."""

    new: bytes
    gap: bool


def grown(former: bytes, now: bytes) -> Grown:
    """Return what was appended between two looks at the end of one log."""
    if not former or not now:
        return Grown(now, gap=False)
    at = _overlap(former, now)
    if at is None:
        return Grown(now, gap=True)
    return Grown(now[len(former) - at :], gap=False)


def _overlap(former: bytes, now: bytes) -> int | None:
    """Return where in ``former`` the beginning of ``now`` stands, the earliest that fits."""
    head = now[: now.find(b"\n") + 1] or now
    at = former.find(head)
    while at >= 0:
        if (at == 0 or former[at - 1 : at] == b"\n") and now.startswith(former[at:]):
            return at
        at = former.find(head, at + 1)
    return _cut_line(former, now)


def _cut_line(former: bytes, now: bytes) -> int | None:
    """Return where the last, unfinished line of ``former`` starts, if ``now`` goes on with it."""
    at = former.rfind(b"\n") + 1
    rest = former[at:]
    return at if rest and now.startswith(rest) else None


def lines_for(data: bytes) -> int:
    """Return how many lines the next look should ask for, by how long those of this one are."""
    lines = data.count(b"\n")
    if not lines:
        return FIRST
    return max(FEWEST, min(MOST, WANTED * lines // len(data)))
