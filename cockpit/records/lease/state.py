"""What a lease says: who holds a run, since when, for what, and whether they are still at it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from pydantic import Field, ValidationError

from cockpit.model.base import Frozen, rfc3339
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.records.git.pushing import FETCH, LANDED_WITHIN, ask_remote
from cockpit.records.git.repository import NOT_ASKED, Repository, of_command, of_rejection
from cockpit.runtime.process import process_facts
from cockpit.store.journal import JournalEntry
from cockpit.store.ownership import Holder
from cockpit.store.ownership import lives as lives
from cockpit.store.ownership import this_holder as this_holder
from cockpit.text.safe import clean

PREFIX: Final = "refs/cockpit/lease/"
HELD: Final = "held"
RELEASED: Final = "released"
_NUMBER: Final = re.compile(r"-i(\d{1,9})$")
"""The number in a launch id: ``toy-i003``."""
_NOBODY: Final = {
    "GIT_AUTHOR_NAME": "cockpit",
    "GIT_AUTHOR_EMAIL": "cockpit@localhost",
    "GIT_COMMITTER_NAME": "cockpit",
    "GIT_COMMITTER_EMAIL": "cockpit@localhost",
}
"""Whose a lease is stands in it; a person's name is not needed to take one."""


class LeaseState(Frozen):
    """One value of a lease ref. ``last_launch_id`` outlives the lease that it was used under.

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
    def known_launch_id(self) -> str | None:
        """The highest launch id that this ref knows of."""
        return higher(self.launch_id, self.last_launch_id)

    @property
    def launcher(self) -> Holder | None:
        """Who was given the highest launch id that this ref knows of."""
        return self.last_holder if self.launch_id is None else self.holder

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


def lease_ref(run: str) -> str:
    """Return the ref of a run's lease; any name gives one that git accepts."""
    return PREFIX + quote(run, safe="").replace(".", "%2E").replace("~", "%7E")


def higher(one: str | None, two: str | None) -> str | None:
    """Return the launch id with the higher number."""
    return max((one, two), key=lambda text: (_number(text), text is not None))


def not_above(launch_id: str | None, known: str | None) -> bool:
    """Tell whether a launch id was given out already, by the highest one that is known."""
    return launch_id is not None and -1 < _number(launch_id) <= _number(known)


def _number(text: str | None) -> int:
    match = _NUMBER.search(text or "")
    return -1 if match is None else int(match[1])


class CannotAskError(Exception):
    """The lease cannot be used here or now; the message is one line."""


class NoAnswerError(CannotAskError):
    """The remote was asked, and did not tell."""


class LeasePlace(NamedTuple):
    """Where a run's lease lies."""

    repository: Repository
    remote: str
    ref: str


@dataclass(frozen=True)
class LeaseValue:
    """What the ref was when it was read; ``state`` ``None`` for what is not a lease."""

    oid: str = ""
    state: LeaseState | None = None


async def read_lease(place: LeasePlace, within: float | None = None) -> LeaseValue:
    """Return what the ref is on the remote at this moment; raises ``CannotAskError``.

    ``within`` asks also a remote that gave no answer just now, for so many seconds.
    """
    done, there = await ask_remote(place.repository, place.remote, place.ref, within=within)
    if not done.ok:
        raise NoAnswerError(of_command(done, f"ask {place.remote} for the lease"))
    oid = there.get(place.ref, "")
    if not oid:
        return LeaseValue()
    if not (await place.repository.run("cat-file", "-e", oid)).ok:
        await _bring(place)
    answer = await place.repository.run("cat-file", "commit", oid)
    return LeaseValue(oid, read_state(answer.text.partition("\n\n")[2]) if answer.ok else None)


async def _bring(place: LeasePlace) -> None:
    at = await place.repository.pushed_to(place.remote)
    done = await place.repository.network(place.remote, *FETCH, at, place.ref)
    if not done.ok:
        raise NoAnswerError(of_command(done, f"read the lease from {place.remote}"))


async def swap_lease(place: LeasePlace, expected: str, state: LeaseState) -> bool:
    """Put ``state`` in the place of ``expected`` (empty: of nothing); False if it was not that.

    Raises ``CannotAskError`` when the remote refuses, or does not tell.
    """
    repository = place.repository
    tree = await repository.ask("hash-object", "-w", "-t", "tree", "--stdin", stdin=b"")
    parent = ("-p", expected) if expected else ()
    oid = await repository.ask(
        "commit-tree", *parent, "-F", "-", tree, stdin=state.text().encode(), env=_NOBODY
    )
    done = await repository.network(
        place.remote,
        "push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
        f"--force-with-lease={place.ref}:{expected}", place.remote, f"{oid}:{place.ref}",
    )  # fmt: skip
    if done.ok:
        return True
    if done.timed_out and done.rc == NOT_ASKED:
        raise NoAnswerError(of_command(done, f"take the lease on {place.remote}"))
    # Whatever was answered: this is what is true.
    found = await read_lease(place, LANDED_WITHIN if done.timed_out else None)
    if found.oid == oid:
        return True
    if found.oid != expected:
        return False
    if done.timed_out:
        raise NoAnswerError(of_command(done, f"take the lease on {place.remote}"))
    raise CannotAskError(f"the lease: {of_rejection(done, place.remote)}")


def passing(text: str, launch_id: str | None = None) -> Claim:
    """Return a claim that lets an action pass."""
    return Claim(level=Level.PASS.value, text=text, launch_id=launch_id)


def blocking(text: str, launch_id: str | None = None) -> Claim:
    """Return a claim that stands in an action's way."""
    return Claim(level=Level.BLOCK.value, text=text, launch_id=launch_id)


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
