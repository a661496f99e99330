"""What people are shown of a system of jobs: what doctor finds there, answers as evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cockpit.platforms.command import masked
from cockpit.text.safe import clean
from cockpit.text.scrub import MASK, scrub

DEEPEST: Final = 40
SHOWN: Final = 5
ENVIRONMENTS: Final = ("envVars", "env_vars")
"""How systems call the environment of a job in their answers."""
HARMLESS: Final = ("COCKPIT_", "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RESUME")
"""Variables whose values are kept; of all others the name alone is evidence."""
NOISE: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
"""Fields that hold a document once more, for its writers."""
PROVENANCE: Final = "MARIN_PROVENANCE"
"""A variable that holds a document: it is masked as one."""
SET_CLOCKS: Final = "set the clocks by NTP; its times are corrected by that much until then"


def shown_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def clock_text(ahead: float) -> str:
    """Return by how much another clock is off."""
    return f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"


def missing(error: object) -> str:
    """Return what stands in the place of evidence that could not be had."""
    return f"missing: {clean(str(error), 400)}"


def as_evidence(document: object) -> str:
    """Return an answer as text without secrets.

    A system masks variables by their names at most, and not the command line that a client notes
    beside them: that is read, and masked word by word.
    """
    return scrub(json.dumps(safe_document(document), indent=1, ensure_ascii=False))


def safe_document(value: object, depth: int = 0) -> object:
    """Return a document whose texts are safe to show and hold no secret."""
    if depth > DEEPEST:
        return MASK
    if isinstance(value, dict):
        own = {name: each for name, each in value.items() if name not in NOISE}
        if set(own) == {"name", "value"} and not str(own["name"]).startswith(HARMLESS):
            own["value"] = MASK  # a variable of a container
        return {clean(name, 200): _safe_field(name, each, depth) for name, each in own.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            return list(masked(value))
        return [safe_document(each, depth + 1) for each in value]
    return scrub(value) if isinstance(value, str) else value


def _safe_field(name: str, value: object, depth: int) -> object:
    if name == PROVENANCE and isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return safe_document(json.loads(value), depth + 1)
        return MASK
    if name in ENVIRONMENTS and isinstance(value, dict):
        kept = (PROVENANCE, *HARMLESS)
        return {
            clean(key, 200): _safe_field(key, each, depth + 1) if key.startswith(kept) else MASK
            for key, each in value.items()
        }
    return safe_document(value, depth + 1)
