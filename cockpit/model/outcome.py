"""How an action ended, in words: one set, the same on the screen, in records and on the line.

Nothing else words an outcome: what says "done" here says it everywhere, and nothing says it of
what is not written down (SPEC A, "record").
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How an action ended; ``unknown`` means that it may still happen: look it up."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Records(StrEnum):
    """How far an action is written down for others; ``journal``: it has no other record."""

    KEPT = "recorded"
    JOURNAL = "in the journal"
    PENDING = "recorded here, push pending"
    HERE = "recorded here, not pushed"
    PARTLY = "not all of it is recorded"
    NONE = "not recorded"

    @property
    def whole(self) -> bool:
        """True unless something is missing: what is pushed at this moment is on its way."""
        return self in (Records.KEPT, Records.JOURNAL, Records.PENDING)

    @property
    def written(self) -> bool:
        """True when all of it stands in the files here, pushed or not."""
        return self.whole or self is Records.HERE


UNDER_WAY: Final = "under way"
INTERRUPTED: Final = "interrupted"
NO_END_KNOWN: Final = "begun on another machine, no end known"
_MEANS: Final = {
    Outcome.DONE: "",
    Outcome.REFUSED: "nothing was done",
    Outcome.UNKNOWN: "it may have happened or still happen; find out before doing anything else",
    Outcome.FAILED: "it did not happen, or only in part",
}


def means(outcome: Outcome) -> str:
    """Return what an outcome means for a person; nothing for one that is simply done."""
    return _MEANS[outcome]


def ending(
    outcome: Outcome | None, records: Records = Records.KEPT, at_it: bool | None = True
) -> str:
    """Return how it ended: ``done``, ``done, recorded here, not pushed``, ``refused``.

    A refusal leaves nothing to record. ``None``: nobody has ended it; ``at_it`` tells then
    whether whoever began it still does it (``None``: that cannot be told from here).
    """
    if outcome is None:
        return {True: UNDER_WAY, False: INTERRUPTED, None: NO_END_KNOWN}[at_it]
    if outcome is Outcome.REFUSED or records in (Records.KEPT, Records.JOURNAL):
        return outcome.value
    but = "but " if records is Records.PARTLY else ""
    return f"{outcome.value}, {but}{records.value}"


def ending_means(outcome: Outcome, records: Records = Records.KEPT) -> str:
    """Return ``ending`` with what it means: ``refused, nothing was done``."""
    between = ", " if outcome is Outcome.REFUSED else ": "
    return between.join(filter(None, (ending(outcome, records), means(outcome))))


RECORDS: Final = "records"
"""The fact of a journal entry that holds how far it is written down."""


def records_of(told: str | None, *, recorded: bool) -> Records:
    """Return how far something is written down: as it was told, else by whether all of it is."""
    if told in set(Records):
        return Records(told)
    return Records.KEPT if recorded else Records.PARTLY
