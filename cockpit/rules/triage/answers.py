"""An answer of triage, with the lines that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cockpit.model.observed import Triage
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.signs import Action

EVIDENCE = 5
"""Lines that are shown at most: the first ones, and the last."""


def answer(
    log: Log,
    name: str,
    action: Action,
    confidence: Literal["sure", "likely", "guess"],
    indexes: Sequence[int] = (),
    place: Triage.Place | None = None,
) -> Triage:
    """Return class ``name`` and its action, resting on the lines ``indexes`` (0-based)."""
    chosen = [*indexes[: EVIDENCE - 1], *indexes[-1:]] if len(indexes) > EVIDENCE else indexes
    return Triage(
        name=name,
        action=action,
        confidence=confidence,
        evidence=tuple(log.evidence(index) for index in chosen),
        code_location=place,
        step=log.newest_step,
        read=log.read,
    )
