"""Regions as names and commands tell them (C-16, C-17). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.lineage import flags_of
from cockpit.model.place import Place

SCHEMES: Final = ("gs", "s3")
_PART: Final = r"(?:north|south|east|west|central|northeast|northwest|southeast|southwest)"
_NAMED: Final = late_regex(
    rf"(?:^|[-_.])((?:us|eu|europe|asia|australia|northamerica|southamerica|africa|me|ca|sa|ap|af"
    rf"|il|mx)-(?:gov-)?{_PART}-?\d{{1,2}})(?=$|[-_.])",
    re.I,
)
_ZONE: Final = late_regex(r"(.+\d)-?[a-f]")
_FLAGS: Final = ("--region", "--zone")


def of_command(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the region that a command asks for, and the flag that says so."""
    flags = flags_of(words)
    for flag in _FLAGS:
        value = flags.get(flag, "").strip()
        if value and " " not in value and "," not in value:
            zone = _ZONE.fullmatch(value) if flag == "--zone" else None
            return plain(zone[1] if zone is not None else value), flag
    return None, None


def named_in(place: Place) -> str | None:
    """Return the region that a bucket's name holds, if it holds one."""
    found = _NAMED.search(place.host) if place.scheme in SCHEMES else None
    return None if found is None else plain(found[1])


def plain(region: str) -> str:
    """Return a region's one spelling: Google's ``eu-west4`` is ``europe-west4``."""
    text = region[:40].strip().lower()
    google = re.fullmatch(r"eu-([a-z]+\d{1,2})", text)
    return f"europe-{google[1]}" if google is not None else text
