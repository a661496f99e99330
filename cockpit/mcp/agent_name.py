"""What an agent goes by: the name that its client gives, made a word that cannot be another's."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 40
_OTHER: Final = re.compile(r"[^a-z0-9._-]+")


def agent_name(told: object) -> str:
    """Return the name in a ``clientInfo``, or in a text, as a slug; empty if there is none."""
    name = told.get("name") if isinstance(told, dict) else told
    if not isinstance(name, str):
        return ""
    return _OTHER.sub("-", name[: 4 * LONGEST].lower()).strip("-._")[:LONGEST]
