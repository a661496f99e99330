"""What a lease says: who holds a run, since when, for what, and whether they are still at it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from pydantic import Field, ValidationError

from cockpit.hosts.notes import number_of
from cockpit.model.base import Frozen, rfc3339
from cockpit.runtime.process import process_facts
from cockpit.store.journal import JournalEntry
from cockpit.store.ownership import Holder
from cockpit.store.ownership import lives as lives
from cockpit.store.ownership import this_holder as this_holder
from cockpit.text.safe import clean

HELD: Final = "held"
RELEASED: Final = "released"


def highest(run: str, *launch_ids: str | None) -> str | None:
    """Return the launch id of this run with the highest number."""
    known = [(number_of(run, each), each) for each in launch_ids if each is not None]
    return max(((number, each) for number, each in known if number), default=(0, None))[1]


class LeaseState(Frozen):
    """One value of a lease. ``last_launch_id`` outlives the lease that it was used under.

    ``last_holder`` is who used it: another may have held the lease since, for something else.
    """

    schema_: int = Field(default=1, alias="schema")
    state: str
    run: str
    holder: Holder
    operator: str
    what: str
    at: float
    launch_id: str | None = None
    last_launch_id: str | None = None
    last_holder: Holder | None = None
    nonce: str = Field(default_factory=lambda: uuid4().hex)

    @property
    def is_held(self) -> bool:
        """True unless it was given back."""
        return self.state != RELEASED

    @property
    def launch_ids(self) -> tuple[str | None, str | None]:
        """The launch id that it is held for, and the last one that was used under it before."""
        return self.launch_id, self.last_launch_id

    @property
    def known_launch_id(self) -> str | None:
        """The highest launch id that this lease knows of."""
        return highest(self.run, *self.launch_ids)

    @property
    def launcher(self) -> Holder | None:
        """Who was given the highest launch id that this lease knows of."""
        return self.last_holder if self.launch_id is None else self.holder

    def of(self, run: str) -> LeaseState:
        """Return it as a run's, without launch ids of other runs, which count in another way."""
        names = ("launch_id", "last_launch_id")
        known = zip(names, self.launch_ids, strict=True)
        own = {name: each for name, each in known if each and number_of(run, each)}
        return self.model_copy(update={**dict.fromkeys(names), **own, "run": run})

    def released(self, at: float, *, used: bool = True) -> LeaseState:
        """Return the value that gives the lease back; a launch id that was used is remembered."""
        known: dict[str, object] = {"launch_id": None}
        if used:
            known |= {"last_launch_id": self.known_launch_id, "last_holder": self.launcher}
        return self.model_copy(update={"state": RELEASED, "at": at, "nonce": uuid4().hex, **known})

    @property
    def label(self) -> str:
        """Who, where, since when and for what, in words that are safe to show."""
        what = clean(self.what, 100) + (
            f" of {clean(self.launch_id, 200)}" if self.launch_id else ""
        )
        return f"{self._who} since {rfc3339(self.at)} for {what}"

    @property
    def given_back(self) -> str:
        """Who had a lease that is free now, until when and for what."""
        return f"{self._who} gave it back at {rfc3339(self.at)}, after {clean(self.what, 100)}"

    @property
    def _who(self) -> str:
        name, host = clean(self.operator, 100), clean(self.holder.host, 100)
        return f"{name} on {host} (pid {self.holder.pid})"

    def text(self) -> str:
        """Return the JSON that the commit carries as its message."""
        return json.dumps(self.model_dump(by_alias=True), sort_keys=True, indent=1)


def read_state(text: str) -> LeaseState | None:
    """Return what a commit's message says, ``None`` if it is no lease of a kind known here."""
    try:
        found = LeaseState.model_validate_json(text.strip())
    except (ValidationError, ValueError):
        return None
    return found if found.schema_ == 1 and found.state in (HELD, RELEASED) else None


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
