"""The process that holds an action: this one, and whether another one still lives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from cockpit.platforms.local import incarnation
from cockpit.platforms.local.incarnation import Machine, Start
from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts
from cockpit.store.journal import Holder, JournalEntry

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


def this_holder() -> Holder:
    """Return this process, known by its start in kernel ticks and by the machine's boot."""
    facts, place = process_facts(os.getpid()), incarnation.here()
    return Holder(
        host=place.host or "",
        pid=facts.pid,
        machine=place.machine,
        boot=place.boot,
        space=place.space,
        ticks=facts.ticks,
        started_at=facts.started_at,
        login=login_name(),
    )


def lives(holder: Holder) -> bool | None:
    """Return whether that very process lives; ``None`` for one on another machine."""
    place = Machine(holder.host, holder.machine, holder.boot, holder.space)
    return incarnation.lives(holder.pid, place, Start(holder.ticks, holder.started_at))


def halted(holder: Holder) -> str:
    """Return that a living process of this machine is stopped (Ctrl-Z, SIGSTOP); else nothing."""
    if not process_facts(holder.pid).stopped:
        return ""
    return f"; its process is stopped (kill -CONT {holder.pid} lets it go on)"
