"""Reads Levanter's ``metadata.json``: step, time stamp, temporary or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from cockpit.sources.checkpoint_listing import Listed, number


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker says; ``problem`` is why it does not make a checkpoint complete.

    ``stamp`` orders markers of one trainer; the trainer writes it as local time without a
    zone, so it is no instant.
    """

    step: int | None = None
    stamp: float | None = None
    temporary: bool | None = None
    problem: str | None = None


def read_marker(file: Listed) -> Marker:
    """Return what ``file`` says: complete only if it parses and holds a whole step (SPEC K)."""
    text = (file.content or b"").decode("utf-8", "replace").strip()
    if file.size == 0 or (file.content is not None and not text):
        return Marker(problem="is empty")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return Marker(problem="is truncated or not JSON")
    if not isinstance(document, dict):
        return Marker(problem="is not a JSON object")
    step = _whole(document.get("step"))
    if step is None:
        return Marker(problem="has no step")
    temporary = document.get("is_temporary")
    return Marker(
        step=step,
        stamp=_stamp(document.get("timestamp")),
        temporary=temporary if isinstance(temporary, bool) else None,
    )


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return number(f"{value:.0f}")
    if isinstance(value, int | str):
        return number(str(value))
    return None


def _stamp(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
