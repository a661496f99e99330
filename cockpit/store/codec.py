"""Values to JSON text and back, exactly (instants stay numbers), unlike the public documents."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.text.safe import safe_line

V = TypeVar("V", bound=Frozen)


def pack(value: Frozen) -> str:
    """Return ``value`` as JSON text (NaN and infinities as Python writes them)."""
    return json.dumps(value.model_dump(mode="python"), separators=(",", ":"))


def unpack(kind: type[V], text: str) -> V | None:
    """Return the value, or ``None`` if another version of the cockpit wrote another shape."""
    try:
        return kind.model_validate(_with_lines(json.loads(text)))
    except (ValidationError, json.JSONDecodeError):
        return None


def _with_lines(document: object) -> object:
    """Make log lines displayable again: the file may have been edited since."""
    log = document.get("facets", {}).get("log", {}) if isinstance(document, dict) else {}
    value = log.get("value")
    if value:
        value["lines"] = [safe_line(str(line)) for line in value.get("lines", ())]
    return document
