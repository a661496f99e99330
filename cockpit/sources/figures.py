"""The figures in what a tracker holds as JSON: nested values by their joined names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic_core import from_json

DEPTH: Final = 4
"""Levels of objects that are looked into."""
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def json_of(text: str | bytes) -> object:
    """Return what a JSON text holds, ``None`` where it is none.

    pydantic's reader takes a fifth of the time, but not every text that Python's does.
    """
    try:
        return from_json(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def figures_in(document: Mapping[str, Any], separator: str) -> dict[str, float]:
    """Return the figures among the values of a document."""
    if all(type(value) is float for value in document.values()):
        return dict(document)  # most are so
    figures = ((name, figure_of(value)) for name, value in leaves(document, separator))
    return {name: figure for name, figure in figures if figure is not None}


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
