"""When a line was written, by its own stamp."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex

HEAD: Final = 60
"""Characters in which a line's stamp begins."""
FAR: Final = 400
"""Characters in which an event's own time is looked for: ``CANCELLED AT 2026-06-16T12:00:11``."""
DAY: Final = 24 * 3600
SKEW: Final = 2.0
"""Seconds by which two writers' clocks may differ, or a line may come late."""
NEAR: Final = 30 * 60
"""Seconds that an end is told after the last line of training; an hour may be a zone's."""
_AT: Final = "CANCELLED AT "
_STAMP: Final = late_regex(
    r"(?<!\d)(?:(?P<year>20\d\d)[-/]?(?P<month>[01]\d)[-/]?(?P<day>[0-3]\d)[T ]{1,2})?"
    r"(?<![\d:.])(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?![:\d])(?!.{0,12}<)"
)
_LASTS: Final = late_regex(
    r"(?:<|\b(?:eta|elapsed|remaining|left|took|uptime)\b\W{0,3}(?:\d+ days?, )?)$", re.I
)
"""What stands before hours that are no time of day: a progress bar's, what is left of a run."""
_DIGIT: Final = late_regex(r"\d")


class Told(NamedTuple):
    """A time: how it looks, in seconds, and whether of a day or only of some day."""

    form: str
    at: float
    dated: bool


def told_in(line: str) -> Told | None:
    """Return the stamp in a line's head, durations apart; ``None`` without one."""
    return _told(line[: HEAD + 40], HEAD, dated=False)


def event_in(line: str) -> Told | None:
    """Return the stamp in a line's head, or else the time at which Slurm says that it cancelled."""
    at = line.find(_AT, 0, FAR)
    return told_in(line) or (_told(line[at:], FAR, dated=True) if at >= 0 else None)


def is_later(one: Told, other: Told) -> bool:
    """Tell whether one time lies surely behind the other.

    What lies far behind may be of another zone, or of a day that is not told. Without a date, the
    shorter way round the clock counts.
    """
    apart = one.at - other.at
    if not (one.dated and other.dated):
        apart = (apart + DAY / 2) % DAY - DAY / 2
    return SKEW < apart <= NEAR


def _told(head: str, most: int, *, dated: bool) -> Told | None:
    stamps = (found for found in _STAMP.finditer(head) if found.start() <= most)
    for found in stamps:
        if (dated and found["year"] is None) or _LASTS.search(head[: found.start()]):
            continue
        at = _seconds(found)
        return (
            None if at is None else Told(_DIGIT.sub("0", found[0]), at, found["year"] is not None)
        )
    return None


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
