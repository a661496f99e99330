"""Quiet hours: when people want to hear of nothing but criticals (``[notify] quiet``)."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Annotated, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator

from cockpit.model.late_regex import late_regex

_HOURS: Final = late_regex(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)(?: (\S+))?")
_EXPECTED: Final = 'expected hours such as "22:00-07:00", or with a zone "22:00-07:00 Europe/Oslo"'


class Quiet(NamedTuple):
    """From ``begin`` to before ``end`` (minutes of the day), over midnight where it begins later.

    Without a zone the hours are those of the machine that sends.
    """

    begin: int
    end: int
    zone: str | None = None

    def at(self, now: float) -> bool:
        """Tell whether it is quiet at ``now`` (epoch seconds)."""
        zone: tzinfo | None = None if self.zone is None else ZoneInfo(self.zone)
        there = datetime.fromtimestamp(now, zone)
        minute = there.hour * 60 + there.minute
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


def _parsed(value: object) -> object:
    """Return the hours of a text; raises ``ValueError`` for what is none."""
    if not isinstance(value, str):
        return value
    found = _HOURS.fullmatch(value.strip())
    if found is None:
        raise ValueError(_EXPECTED)
    first, second, third, fourth, zone = found.groups()
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone is called {zone!r}; {_EXPECTED}") from None
    begin, end = int(first) * 60 + int(second), int(third) * 60 + int(fourth)
    if begin == end:
        raise ValueError("begins when it ends: leave it out for no quiet hours")
    return Quiet(begin=begin, end=end, zone=zone)


QuietHours = Annotated[Quiet, BeforeValidator(_parsed)]
