"""How far actions are written down by now: a push that went on behind is told when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.model.acts import RECORDS, Records
from cockpit.records.git.behind import Push, PushStage, push_of
from cockpit.records.git.repository import Limits
from cockpit.store.journal import JournalEntry

OPEN: Final = (Records.PENDING, Records.HERE)
"""What a push that comes late still changes."""


def after_push(records: Records, pushes: Sequence[Push]) -> Records:
    """Return how far something is written down whose pushes stand like this."""
    if records not in OPEN:
        return records
    stages = {each.stage for each in pushes}
    if stages & {PushStage.FAILED, PushStage.HELD}:
        return Records.HERE
    return Records.PENDING if stages & {PushStage.QUEUED, PushStage.PUSHING} else Records.KEPT


async def refreshed(
    entries: Sequence[JournalEntry], logbook: str | None
) -> tuple[JournalEntry, ...]:
    """Return the entries as their logbook's push stands at this moment; changes nothing."""
    if logbook is None or not any(entry.written in OPEN for entry in entries):
        return tuple(entries)
    push = await push_of(Path(logbook), Limits())
    return tuple(_as_pushed(entry, push) for entry in entries)


def _as_pushed(entry: JournalEntry, push: Push) -> JournalEntry:
    records = after_push(entry.written, (push,))
    if records is entry.written:
        return entry
    return entry.model_copy(update={"facts": {**entry.facts, RECORDS: records.value}})
