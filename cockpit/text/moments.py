"""A moment of the past as a person types it: ``03:12``, ``2h ago``, ``2026-03-11 08:57``."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from cockpit.model.base import parse_duration

EXPECTED: Final = "expected 03:12, 2h ago or 2026-03-11T03:12Z"
_CLOCK: Final = ("%H:%M", "%H:%M:%S")


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
    for form in _CLOCK:
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
