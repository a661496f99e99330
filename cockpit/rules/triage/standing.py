"""A run that stands still by the stamps of its own log: nothing moved while time went on (C-06)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.lines import Log

LONGEST: Final = 30 * 60
"""Seconds without a step from which on a run stands still: two of SPEC C-06's usual cadences."""
SLOW: Final = 3
"""So many of its usual times between two lines of progress it may take."""
KEPT: Final = 200
"""Newest lines of progress from which the usual time is known."""
HEAD: Final = 60
"""Characters in which a line's stamp begins."""
DAY: Final = 24 * 3600
_STAMP: Final = late_regex(
    r"(?<!\d)(?:(?P<year>20\d\d)[-/]?(?P<month>[01]\d)[-/]?(?P<day>[0-3]\d)[T ]{1,2})?"
    r"(?<![\d:.])(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?![:\d])(?!.{0,12}<)"
)
_LASTS: Final = late_regex(
    r"(?:<|\b(?:eta|elapsed|remaining|left|took|uptime)\b\W{0,3}(?:\d+ days?, )?)$", re.I
)
"""What stands before hours that are no time of day: a progress bar's, what is left of a run."""
_DIGIT: Final = late_regex(r"\d")


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
        found = _stamp(log.lines[index][: HEAD + 40])
        at = None if found is None else _seconds(found)
        if found is None or at is None:
            continue
        form = _DIGIT.sub("0", found[0])
        before = newest.get(form, at)
        if found["year"] is None and before - at > DAY / 2:
            at += DAY * round((before - at) / DAY)
        newest[form] = at
        yield Stamp(index, form, at)


def _stamp(head: str) -> re.Match[str] | None:
    """Return the first time of day that begins in a line's head, durations apart."""
    told = (found for found in _STAMP.finditer(head) if found.start() <= HEAD)
    return next((found for found in told if not _LASTS.search(head[: found.start()])), None)


def _seconds(found: re.Match[str]) -> float | None:
    """Return when a stamp was written (seconds), ``None`` of a day that no calendar has."""
    clock = 3600.0 * int(found["hour"]) + 60 * int(found["minute"]) + int(found["second"])
    if found["year"] is None:
        return clock
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    return clock + DAY * float(day.toordinal())
