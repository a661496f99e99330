"""The process that holds an action: this one, and whether another one still lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts
from cockpit.store.journal import Holder, JournalEntry

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE: Final = Path("/etc/machine-id")
_SPACE: Final = Path("/proc/self/ns/pid")
_SLACK: Final = 5.0

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
    facts, space = process_facts(os.getpid()), None
    with suppress(OSError):  # which process ids these are: a container counts its own
        space = str(_SPACE.readlink())
    return Holder(
        host=socket.gethostname(),
        pid=facts.pid,
        machine=_line(_MACHINE),
        boot=_line(_BOOT),
        space=space,
        ticks=facts.ticks,
        started_at=facts.started_at,
        login=login_name(),
    )


def lives(holder: Holder) -> bool | None:
    """Return whether that very process lives; ``None`` for one on another machine."""
    here = this_holder()
    if (holder.host, holder.machine) != (here.host, here.machine):
        return None
    if holder.boot != here.boot:
        # Machines may share a name: only the machine's own id tells that this one was restarted.
        return None if None in (holder.machine, holder.boot, here.boot) else False
    if holder.space != here.space:
        return None
    facts = process_facts(holder.pid)
    if not facts.alive:
        return False
    if holder.ticks is not None and facts.ticks is not None:
        return holder.ticks == facts.ticks
    if holder.started_at is None or facts.started_at is None:
        return True
    return abs(holder.started_at - facts.started_at) <= _SLACK


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
