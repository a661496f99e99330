"""Times as logbooks' headings write them and as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cockpit.model.base import parse_duration
from cockpit.model.late_regex import late_regex

_FIXED: Final = {
    "Z": 0.0,
    "UTC": 0.0,
    "GMT": 0.0,
    "WET": 0.0,
    "BST": 1.0,
    "CET": 1.0,
    "WEST": 1.0,
    "CEST": 2.0,
    "EET": 2.0,
    "EEST": 3.0,
    "MSK": 3.0,
    "IST": 5.5,
    "SGT": 8.0,
    "HKT": 8.0,
    "JST": 9.0,
    "KST": 9.0,
    "AEST": 10.0,
    "AEDT": 11.0,
    "EDT": -4.0,
    "EST": -5.0,
    "CDT": -5.0,
    "CST": -6.0,
    "MDT": -6.0,
    "MST": -7.0,
    "PDT": -7.0,
    "PST": -8.0,
}
_NAMED: Final = {
    "PT": ("America/Los_Angeles", -8.0),
    "MT": ("America/Denver", -7.0),
    "CT": ("America/Chicago", -6.0),
    "ET": ("America/New_York", -5.0),
}
_ZONE_NAME: Final = "|".join(sorted([*_FIXED, *_NAMED], key=len, reverse=True))
_AREA: Final = (
    r"(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)"
    r"(?:/[A-Za-z0-9_+-]+){1,2}"
)
_CLOCK: Final = (
    r"(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d)(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[AaPp][Mm])\b)?(?:\s*[-–—~]\s*\d\d?:\d\d(?::\d\d)?)?"
    rf"(?:\s*\(?(?P<zone>(?:UTC|GMT)?[+-]\d\d?(?::?\d\d)?(?!\d)|(?:{_ZONE_NAME})\b|{_AREA})\)?)?"
)
_DATE: Final = r"(?<!\d)(?P<Y>(?:19|20)\d\d)[-/.](?P<M>\d\d?)[-/.](?P<D>\d\d?)(?!\d)"
_DATED: Final = late_regex(rf"{_DATE}(?:[T ,@]+(?:at\s+)?{_CLOCK})?")
_CLOCK_ONLY: Final = late_regex(rf"^\W*{_CLOCK}(?=\W|$)")
_EDGE: Final = " \t-–—:|·,*_`"
_MARKED: Final = late_regex(r"[*_`]{1,3}$")
_SETS_OFF: Final = late_regex(r"\s*[-–—:|·,]+\s*")
_REACH: Final = 400
"""Characters of a line in which its time is looked for."""


class Stamp(NamedTuple):
    """A time found in a line: epoch seconds, whether it has a clock time, and the other words."""

    at: float
    timed: bool
    rest: str


def read_stamp(text: str, day: float | None = None) -> Stamp | None:
    """Return the first time in ``text``; ``day`` (epoch seconds) dates one without a date.

    A time without a zone, or in one that is not known, is taken as UTC; a date alone as the
    start of that day.
    """
    found = _DATED.search(text, 0, _REACH)
    if found is None and day is not None:
        found = _CLOCK_ONLY.search(text, 0, _REACH)
    if found is None:
        return None
    parts = found.groupdict()
    try:
        at = _instant(parts, day)
    except (ValueError, OverflowError):
        return None
    rest = _around(text[: found.start()], text[found.end() :])
    return Stamp(at, parts.get("h") is not None, rest)


def written_stamp(text: str) -> re.Match[str] | None:
    """Return the first dated time as it stands in ``text``: groups Y M D h m s half zone."""
    return _DATED.search(text, 0, _REACH)


def known_zone(text: str) -> tzinfo | None:
    """Return the zone that a time may name so (``PST``, ``+01:00``), ``None`` for no such zone."""
    found = _CLOCK_ONLY.fullmatch(f"00:00 {text}")
    try:
        return None if found is None or found["zone"] is None else _zone(found["zone"])
    except ValueError:
        return None


def _around(before: str, after: str) -> str:
    """Return the words around a time, without the brackets and the dash that set it off."""
    apart = before[-1:].isspace()  # then a mark is no emphasis: a bullet
    before, after = before.rstrip(), after.strip()
    if not before:
        dash = _SETS_OFF.match(after)
        return after if dash is None else after[dash.end() :]
    if before.endswith(("(", "[")) and after.startswith((")", "]")):
        before, after = before[:-1].rstrip(), after[1:].lstrip()
    mark = None if apart else _MARKED.search(before)
    if mark is not None:
        before, after = before[: mark.start()], _unmarked(after, mark.group())
    dash = _SETS_OFF.match(after)
    after = after[dash.end() :] if dash is not None else after.lstrip()
    return f"{before.strip(_EDGE + '+')} {after}".strip()


def _unmarked(after: str, mark: str) -> str:
    """Return ``after`` without the emphasis that closes around the time, or around it all."""
    if after.startswith(mark):
        return after[len(mark) :]
    dash = _SETS_OFF.match(after)
    if dash is not None and after[dash.end() :].startswith(mark):
        return after[dash.end() + len(mark) :]
    return after.removesuffix(mark)


def _instant(parts: dict[str, str | None], day: float | None) -> float:
    if parts.get("Y") is not None:
        year, month, date = (int(parts[name] or 0) for name in "YMD")
    else:
        start = datetime.fromtimestamp(day or 0.0, tz=UTC)
        year, month, date = start.year, start.month, start.day
    hour, minute, second = (int(parts.get(name) or 0) for name in "hms")
    half = (parts.get("half") or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    zone = _zone(parts.get("zone"))
    return datetime(year, month, date, hour, minute, second, tzinfo=zone).timestamp()


@lru_cache(maxsize=64)
def _zone(text: str | None) -> tzinfo:
    if text is None:
        return UTC
    if text in _NAMED:
        name, hours = _NAMED[text]
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError):
            return timezone(timedelta(hours=hours))
    if text in _FIXED:
        return timezone(timedelta(hours=_FIXED[text]))
    if "/" in text:
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, OSError):
            return UTC
    offset = text.removeprefix("UTC").removeprefix("GMT")
    digits = offset[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    delta = timedelta(hours=hours, minutes=minutes)
    return timezone(-delta if offset.startswith("-") else delta)


EXPECTED: Final = "expected 03:12, 2h ago or 2026-03-11T03:12Z"
_CLOCK_TIME: Final = ("%H:%M", "%H:%M:%S")


def read_moment(typed: str, now: float, zone: tzinfo | None = UTC, *, ahead: bool = False) -> float:
    """Return seconds since the epoch; a time without a zone is in ``zone``, ``None``: the reader's.

    The reader's clock is the one that was in force then: not summer's hour for a day of winter. A
    clock time alone is the last time that it was so late. Raises ``ValueError`` of one line,
    unless ``ahead`` also for a moment that is still to come.
    """
    words = typed.strip()
    span = words.removesuffix("ago").removeprefix("-").removeprefix("−")
    try:
        at = _stamp(words, now, zone) if span == words else now - parse_duration(span)
        datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{words[:40]!r} is not a time; {EXPECTED}") from None
    if at > now and not ahead:
        raise ValueError(f"{words[:40]!r} is still to come")
    return at


def _stamp(words: str, now: float, zone: tzinfo | None) -> float:
    clock = words.removesuffix("Z").removesuffix("UTC").strip()
    for form in _CLOCK_TIME:
        try:
            wanted = datetime.strptime(clock, form).time()
        except ValueError:
            continue
        return _last(wanted, now, zone if clock == words else UTC)
    found = datetime.fromisoformat(words.replace(" UTC", "Z"))
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()


def _last(wanted: time, now: float, zone: tzinfo | None) -> float:
    """Return when the clock showed ``wanted`` last; one hour a year comes twice, one never."""
    today = datetime.fromtimestamp(now, zone).date()
    shown = (
        datetime.combine(today - timedelta(days=days), wanted.replace(fold=fold), zone).timestamp()
        for days in (0, 1, 2)
        for fold in (1, 0)
    )
    return max(
        at for at in shown if at <= now and datetime.fromtimestamp(at, zone).time() == wanted
    )
