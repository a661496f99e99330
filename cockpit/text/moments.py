"""A moment of the past as a person types it: ``03:12``, ``2h ago``, ``2026-03-11 08:57``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cockpit.model.base import parse_duration

EXPECTED: Final = "expected 03:12, 2h ago or 2026-03-11T03:12Z"
_CLOCK: Final = ("%H:%M", "%H:%M:%S")


def read_moment(
    typed: str, now: float, zone: tzinfo | None = None, *, ahead: bool = False
) -> float:
    """Return seconds since the epoch; a time without a zone is in ``zone`` (default: UTC).

    A clock time alone is the last time that it was so late. Raises ``ValueError`` of one line,
    unless ``ahead`` also for a moment that is still to come.
    """
    words = typed.strip()
    span = words.removesuffix("ago").removeprefix("-").removeprefix("−")
    at = _stamp(words, now, zone or UTC) if span == words else _before(words, span, now)
    if at > now and not ahead:
        raise ValueError(f"{words[:40]!r} is still to come")
    return at


def _before(words: str, span: str, now: float) -> float:
    try:
        return now - parse_duration(span)
    except ValueError:
        raise ValueError(f"{words[:40]!r} is not a time; {EXPECTED}") from None


def _stamp(words: str, now: float, zone: tzinfo) -> float:
    clock = words.removesuffix("Z").removesuffix("UTC").strip()
    zone = UTC if clock != words else zone
    for form in _CLOCK:
        try:
            wanted = datetime.strptime(clock, form).time()
        except ValueError:
            continue
        at = datetime.combine(datetime.fromtimestamp(now, zone).date(), wanted, zone)
        return (at if at.timestamp() <= now else at - timedelta(days=1)).timestamp()
    try:
        found = datetime.fromisoformat(words.replace(" UTC", "Z"))
    except ValueError:
        raise ValueError(f"{words[:40]!r} is not a time; {EXPECTED}") from None
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
