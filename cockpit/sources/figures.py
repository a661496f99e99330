"""The figures in what a tracker holds as JSON: nested values by their joined names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

DEPTH: Final = 4
"""Levels of objects that are looked into."""
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def leaves(
    document: Mapping[str, Any], separator: str, prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield each value with its name, that of one in an object behind the object's."""
    for key, value in document.items():
        if isinstance(value, dict) and depth < DEPTH:
            yield from leaves(value, separator, f"{prefix}{key}{separator}", depth + 1)
        else:
            yield prefix + key, value


def figure_of(value: object) -> float | None:
    """Return a JSON value as a number; NaN and infinities may come as words."""
    if isinstance(value, str):
        return _WORDS.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
