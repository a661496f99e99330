"""The process that holds an action: whether it is still at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from cockpit.runtime.process import process_facts
from cockpit.store.journal import JournalEntry
from cockpit.store.ownership import Holder
from cockpit.store.ownership import lives as lives
from cockpit.store.ownership import this_holder as this_holder

_UNDER_WAY: Final[set[tuple[str, int]]] = set()


@contextmanager
def under_way(store: str, entry: int) -> Iterator[None]:
    """Mark an entry of the journal as being done by this very process, for so long."""
    _UNDER_WAY.add((store, entry))
    try:
        yield
    finally:
        _UNDER_WAY.discard((store, entry))


def still_working(holder: Holder, store: str, entry: int) -> bool | None:
    """Return whether the entry is still being done (``None``: on another machine, not known).

    An entry of this process that it does no more was left behind, as by a full disk.
    """
    alive = lives(holder)
    if alive and holder == this_holder():
        return (store, entry) in _UNDER_WAY
    return alive


def looked_after(entries: Sequence[JournalEntry], store: str) -> tuple[JournalEntry, ...]:
    """Return a store's entries, those without an end with whether somebody is still at them."""
    return tuple(
        each
        if each.outcome is not None
        else each.model_copy(update={"at_it": still_working(each.holder, store, each.number)})
        for each in entries
    )


def halted(holder: Holder) -> str:
    """Return that a living process of this machine is stopped (Ctrl-Z, SIGSTOP); else nothing."""
    if not process_facts(holder.pid).stopped:
        return ""
    return f"; its process is stopped (kill -CONT {holder.pid} lets it go on)"
