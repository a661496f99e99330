"""What a Hugging Face ``trainer_state.json`` says of other checkpoints: the best (SPEC K). Pure.

The file grows with every logged step, so only its beginning is read. The trainer writes its keys in
order, and the best checkpoint stands before the logged rows.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex

NAME: Final = "trainer_state.json"
HEAD: Final = 1 << 16
"""First bytes that are read."""
LAST: Final = 64
"""Last bytes that are read: they show whether the file ends."""
_KEY: Final = "best_model_checkpoint"
_BEST: Final = late_regex(rf'"{_KEY}"\s*:\s*(null|"(?:[^"\\]|\\.)*")')


class TrainerState(NamedTuple):
    """``best`` is the path of the best checkpoint; ``problem`` is why it is not known."""

    best: str | None = None
    problem: str | None = None


def read_state(head: bytes, *, whole: bool) -> TrainerState:
    """Return what the beginning of the file says; ``whole``: it is all of it."""
    text = head.decode("utf-8", "replace")
    try:
        document = json.loads(text) if whole else None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        best = document.get(_KEY)
        return TrainerState(best=best if isinstance(best, str) and best else None)
    found = None
    for match in _BEST.finditer(text):
        found = match
    if found is None:
        return TrainerState(problem="is damaged" if whole else f"has no {_KEY} near its beginning")
    try:
        best = json.loads(found[1])
    except ValueError:
        return TrainerState(problem="is damaged")
    return TrainerState(best=best or None)
