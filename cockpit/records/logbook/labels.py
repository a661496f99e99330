"""The words that stand before values in a logbook (SPEC L), and the words people use instead."""

from __future__ import annotations

import re
from typing import Final

EVENT: Final = ("Status", "Evidence", "Decision", "Next")
"""SPEC L's labels of an event, in their order; ``EventEntry`` has a field for each."""

CONTRACT: Final = (
    "DRI",
    "Goal",
    "Stop/escalation criteria",
    "Issue",
    "W&B",
    "Output root",
    "Final step",
)
INSTANCE: Final = (
    "Command",
    "Git SHA",
    "Dirty tree",
    "Source bundle/container",
    "Hardware/topology",
    "`initialize_from`",
    "Final step",
    "Checkpoint policy",
    "Babysitter/check cadence",
)
OTHER_WORDS: Final = {
    "Status": ("State", "What happened", "Summary", "Situation", "Symptom", "Result"),
    "Evidence": ("Observed", "Observation", "Observations", "Signals", "Facts", "What we saw"),
    "Decision": ("Decided", "Action", "Action taken", "Actions", "What we did", "Response"),
    "Next": ("Next step", "Next steps", "Next action", "Next actions", "Follow-up", "Then"),
}
KNOWN: Final = tuple(
    sorted(
        {*EVENT, *(word for words in OTHER_WORDS.values() for word in words), *CONTRACT}
        | {label.strip("`") for label in INSTANCE},
        key=len,
        reverse=True,
    )
)
"""Every label above, the longest first."""


_SINCE: Final = re.compile(r"[ \t]*\(since [0-9./-]{8,10}\)[ \t*_`]*$", re.IGNORECASE)


def since(label: str, day: str) -> str:
    """Return the label of a value that was added beside a former one, on that day."""
    return f"{_SINCE.sub('', label)} (since {day})"


def plain(label: str) -> str:
    """Return a label without case and punctuation: two that are alike so are the same.

    ``Final step (since 2026-03-11)`` is a newer value of ``Final step``.
    """
    return re.sub(r"[^a-z0-9]+", "", _SINCE.sub("", label).lower())


_MEANT: Final = {
    plain(word): label for label in EVENT for word in (label, *OTHER_WORDS.get(label, ()))
}


def meant(label: str) -> str | None:
    """Return which of an event's four labels is meant by ``label``."""
    return _MEANT.get(plain(label))


def written(label: str) -> str:
    """Return a label as SPEC L writes it: ``initialize_from`` is code."""
    return "`initialize_from`" if label.strip("`") == "initialize_from" else label
