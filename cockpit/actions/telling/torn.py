"""Run files that were cut off by a kill: what they hold is sent once, and never gets its mark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cockpit.actions.core.parameters import safe
from cockpit.actions.telling.wandb_upload import Fragment, Offline
from cockpit.store.journal import JournalEntry

TORN: Final = "torn"
"""The fact that holds the sizes of such files when they were sent, by folder, as JSON."""


def packed(fragments: Iterable[Fragment]) -> str:
    """Return what the journal keeps of them."""
    return json.dumps({safe(each.path): each.size for each in fragments})


def without_sent(found: Offline, entries: Iterable[JournalEntry], place: str) -> Offline:
    """Return what lies there, those marked as cut that went to this very place as they are now."""
    known: dict[str, int | None] = {}
    for entry in entries:
        if entry.action == "sync" and goes_to(entry.facts) == place:
            known |= _read(entry.facts.get(TORN, "{}"))
    marked = (
        replace(each, cut=each.size is not None and known.get(safe(each.path)) == each.size)
        for each in found.fragments
    )
    return replace(found, fragments=tuple(marked))


def goes_to(facts: dict[str, str]) -> str:
    """Return where an upload goes, by what is kept of it."""
    return "/".join(facts.get(name, "") for name in ("entity", "project", "id"))


def _read(text: str) -> dict[str, int | None]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
