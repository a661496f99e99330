"""Durations as the run file writes them: ``"15m"``, ``"2h"``, ``"570s"``, ``"9d"``."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")


def parse_duration(value: object) -> float:
    """Return seconds for ``"1h30m"``, ``"15m"`` or a number of seconds.

    Raises ``ValueError`` naming the expected form; booleans and negatives are refused.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError('expected a duration such as "15m", "2h" or "570s"')
    if isinstance(value, int | float):
        if not 0 <= value < float("inf"):
            raise ValueError("expected a duration of at least 0 seconds")
        return float(value)
    text = value.strip().lower()
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise ValueError(f'"{value}" is not a duration; expected "15m", "2h" or "570s"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
