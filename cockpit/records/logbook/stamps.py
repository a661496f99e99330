"""Writes times as a file writes them: its digits, its zone (SPEC L, "in the file's own style")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cockpit.model.base import Frozen
from cockpit.text.times import known_zone, read_stamp, written_stamp

T = TypeVar("T")
_AREAS: Final = {
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MDT": "America/Denver",
    "CDT": "America/Chicago",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "BST": "Europe/London",
    "WEST": "Europe/Lisbon",
    "CET": "Europe/Berlin",
    "CEST": "Europe/Berlin",
    "EET": "Europe/Athens",
    "EEST": "Europe/Athens",
    "AEDT": "Australia/Sydney",
}
"""Zones that change their name with the season, so that July is not written in winter time."""

_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_AMBIGUOUS: Final = frozenset(("CST", "IST"))


class StampForm(Frozen):
    """How a file writes a time. ``zone`` is as it is written; empty text is never a zone."""

    dash: str = "-"
    between: str = " "
    seconds: bool = False
    half: str = ""
    padded: bool = True
    gap: str = " "
    zone: str = "UTC"

    def write(self, at: float) -> str:
        """Return ``at`` (epoch seconds) so written, in UTC where this form would not say it.

        A time that no logbook can mean (before 1970, after 2099, not a number) is 1970's first.
        """
        at = at if 0.0 <= at < _LAST else 0.0
        whole = float(int(at)) if self.seconds else at // 60 * 60
        for form in (self, self.model_copy(update={"zone": "UTC", "gap": self.gap or " "})):
            text = form._text(whole)
            found = read_stamp(text)
            if found is not None and found.at == whole and not found.rest:
                return text
        return StampForm()._text(at // 60 * 60)

    def _text(self, at: float) -> str:
        zone, name = _zone_at(self.zone, at)
        moment = datetime.fromtimestamp(at, zone)
        clock = moment.strftime("%I:%M" if self.half else "%H:%M")
        clock = clock if self.padded else clock.removeprefix("0")
        clock += f":{moment:%S}" if self.seconds else ""
        if self.half:
            word = moment.strftime("%p")
            clock += self.half[:-2] + (word.lower() if self.half[-1].islower() else word)
        date = self.dash.join((f"{moment.year:04}", f"{moment.month:02}", f"{moment.day:02}"))
        open_, close = ("(", ")") if self.gap.endswith("(") else ("", "")
        return f"{date}{self.between}{clock}{self.gap.removesuffix(open_)}{open_}{name}{close}"


def _zone_at(text: str, at: float) -> tuple[tzinfo, str]:
    """Return the zone and the name it has at that time; UTC for one that is not certain."""
    area = _AREAS.get(text)
    if area is not None:
        try:
            zone: tzinfo = ZoneInfo(area)
        except (ZoneInfoNotFoundError, OSError):
            zone = known_zone(text) or UTC
            return zone, text
        return zone, datetime.fromtimestamp(at, zone).strftime("%Z")
    known = None if text in _AMBIGUOUS else known_zone(text)
    return (UTC, "UTC") if known is None else (known, text)


def form_of(texts: Iterable[str]) -> StampForm:
    """Return how most of these texts write their time (each text begins with or holds one)."""
    found = [match for text in texts if (match := written_stamp(text)) is not None]
    timed = [match for match in found if match["h"] is not None]
    if not timed:
        return StampForm(dash=most([match.string[match.end("Y")] for match in found], "-"))
    zoned = [match for match in timed if match["zone"] is not None]
    zone, gap = _zone_of(zoned)
    return StampForm(
        dash=most([match.string[match.end("Y")] for match in timed], "-"),
        between=most([match.string[match.end("D") : match.start("h")] for match in timed], " "),
        seconds=2 * sum(match["s"] is not None for match in timed) > len(timed),
        half=most([_half_of(match) for match in timed], ""),
        padded=all(len(match["h"]) > 1 for match in timed),
        gap=gap,
        zone=zone,
    )


def _zone_of(zoned: list[re.Match[str]]) -> tuple[str, str]:
    """Return the zone that most times name, in its newest spelling, and what stands before it."""
    if not zoned:
        return "UTC", " "
    family = most([_AREAS.get(match["zone"], match["zone"]) for match in zoned], "UTC")
    mine = [match for match in zoned if _AREAS.get(match["zone"], match["zone"]) == family]
    return mine[-1]["zone"], most([_gap_of(match) for match in mine], " ")


def _gap_of(match: re.Match[str]) -> str:
    ends = [match.end(name) for name in ("m", "s", "half") if match[name] is not None]
    gap = match.string[max(ends) : match.start("zone")]
    return gap if len(gap) <= 2 and not gap.strip(" (") else " "


def _half_of(match: re.Match[str]) -> str:
    if match["half"] is None:
        return ""
    end = match.end("m") if match["s"] is None else match.end("s")
    return match.string[end : match.end("half")]


def most(values: Sequence[T], default: T) -> T:
    """Return the value seen most often, of equals the last one; ``default`` without any."""
    counted = Counter(reversed(values))
    return max(counted, key=lambda value: counted[value], default=default)
