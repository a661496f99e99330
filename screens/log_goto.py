"""Where in a log a person wants to go: a step, a time, a line or a share, as they type it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from screens.evidence import Target

_STEP: Final = re.compile(r"(?:step\s*)?(\d{1,3}(?:[, ]\d{3})+|\d{1,15})", re.IGNORECASE)
_LINE: Final = re.compile(r"(?:line\s+|:)([\d,]{1,15})", re.IGNORECASE)
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*%")
_AGO: Final = re.compile(r"-?\s*(\d{1,6})\s*([smhd])(?:\s+ago)?")
_TIME: Final = re.compile(
    r"(?:(?:(\d{4})[-/])?(\d\d)[-/](\d\d)[T ]+)?(\d\d?):(\d\d)(?::(\d\d))?\s*(Z|UTC)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
HOW: Final = "a step (8,004), a time (03:12, 11-21 03:12 UTC, 2h ago), :line or 40 %"


class Share(NamedTuple):
    """A part of the log, from 0 to 1."""

    part: float
    kind: Literal["share"] = "share"


def target_of(typed: str, now: float) -> Target | Share | None:
    """Return what was typed; ``None`` if it is nothing of ``HOW``.

    A time without a day is the last such one before ``now`` (epoch seconds), in the reader's zone
    unless it says UTC; without a year it is of this one, or of the last.
    """
    words = typed.strip()
    if found := _SHARE.fullmatch(words):
        return Share(min(1.0, float(found[1]) / 100))
    if found := _LINE.fullmatch(words):
        return Target("line", float(found[1].replace(",", "") or 0))
    if found := _STEP.fullmatch(words):
        return Target("step", float(re.sub("[, ]", "", found[1])))
    if found := _AGO.fullmatch(words):
        return Target("time", now - float(found[1]) * _SECONDS[found[2]])
    if found := _TIME.fullmatch(words):
        at = _instant(found, now)
        return None if at is None else Target("time", at)
    return None


def _instant(found: re.Match[str], now: float) -> float | None:
    zone = UTC if found[7] else None
    today = datetime.fromtimestamp(now, zone)
    hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
    year, month, day = found[1] or today.year, found[2] or today.month, found[3] or today.day
    try:
        moment = datetime(int(year), int(month), int(day), hour, minute, second, tzinfo=zone)
        if found[1] is None and moment.timestamp() > now:
            dated = found[2] is not None
            moment = moment.replace(year=moment.year - 1) if dated else moment - timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):  # no such day
        return None
