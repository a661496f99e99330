"""A run that stands still by the stamps of its own log: nothing moved while time went on (C-06)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.stamps import DAY, told_in

LONGEST: Final = 30 * 60
"""Seconds without a step from which on a run stands still: two of SPEC C-06's usual cadences."""
SLOW: Final = 3
"""So many of its usual times between two lines of progress it may take."""
KEPT: Final = 200
"""Newest lines of progress from which the usual time is known."""


class Stamp(NamedTuple):
    """Where a line stands, how its stamp looks, and when it was written (seconds)."""

    line: int
    form: str
    at: float


def stands_still(log: Log) -> list[int]:
    """Return the last line of progress and the last of all, if too much time lies between them.

    Only stamps of one look are held against each other: those of two writers may be of two zones.
    """
    moved = sorted({index for index, _ in (*log.marks, *log.bars)})
    last = moved[-1] if moved else 0
    known = frozenset(moved[-KEPT:])
    stamps = list(stamps_of(log, min(known, default=0)))
    usual = [
        other.at - one.at for one, other in pairwise(stamps) if {one.line, other.line} <= known
    ]
    longest = max(LONGEST, SLOW * median(usual)) if usual else LONGEST
    first: dict[str, float] = {}
    for stamp in stamps:
        if stamp.line >= last and stamp.at - first.setdefault(stamp.form, stamp.at) > longest:
            return [last, stamps[-1].line]
    return []


def stamps_of(log: Log, since: int) -> Iterator[Stamp]:
    """Yield the stamps of the lines from ``since`` on; a clock without a date may pass midnight."""
    newest: dict[str, float] = {}
    for index in range(since, len(log.lines)):
        told = told_in(log.lines[index])
        if told is None:
            continue
        form, at, dated = told
        before = newest.get(form, at)
        if not dated and before - at > DAY / 2:
            at += DAY * round((before - at) / DAY)
        newest[form] = at
        yield Stamp(index, form, at)
