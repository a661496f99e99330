"""The base of every value, and the scalar types that print themselves as INTERFACE says."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer

NO_TIME = "unknown"


class Frozen(BaseModel):
    """An immutable value: unknown fields are errors, equality is by value."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON-ready document (INTERFACE shapes, aliases used)."""
        return self.model_dump(mode="json", by_alias=True)


def rfc3339(instant: float) -> str:
    """Return ``instant`` (seconds since the epoch) as RFC 3339 in UTC, whole milliseconds."""
    try:
        moment = datetime.fromtimestamp(instant, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return NO_TIME
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain_number(value: float) -> float | str:
    """Return ``value``, or INTERFACE's string for a number that JSON cannot hold."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _instant_text(instant: float) -> str | None:
    text = rfc3339(instant)
    return None if text == NO_TIME else text


Instant = Annotated[float, PlainSerializer(_instant_text, return_type=str | None, when_used="json")]
"""Seconds since the epoch, UTC; RFC 3339 in JSON, ``null`` for one that no calendar holds."""

Number = Annotated[float, PlainSerializer(plain_number, when_used="json")]
"""A float that may be NaN or infinite; a string in JSON where JSON has no number."""

Seconds = float
"""A duration."""
