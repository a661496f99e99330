"""Reading a lease ref on a remote, and moving it by compare-and-swap (SPEC A, "Two machines")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from cockpit.records.lease_state import LeaseState, read_state
from cockpit.records.repository import Repository
from cockpit.records.troubles import of_command, of_rejection

_NOBODY: Final = {
    "GIT_AUTHOR_NAME": "cockpit",
    "GIT_AUTHOR_EMAIL": "cockpit@localhost",
    "GIT_COMMITTER_NAME": "cockpit",
    "GIT_COMMITTER_EMAIL": "cockpit@localhost",
}
"""Whose a lease is stands in it; a person's name is not needed to take one."""


class CannotAskError(Exception):
    """The lease cannot be used here or now; the message is one line."""


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


async def read_lease(place: LeasePlace) -> LeaseValue:
    """Return what the ref is on the remote at this moment; raises ``CannotAskError``."""
    done = await place.repository.network("ls-remote", place.remote, place.ref)
    if not done.ok:
        raise CannotAskError(of_command(done, f"ask {place.remote} for the lease"))
    pairs = (line.split("\t") for line in done.text.splitlines())
    oid = next((oid for oid, ref in pairs if ref == place.ref), "")
    if not oid:
        return LeaseValue()
    if not (await place.repository.run("cat-file", "-e", oid)).ok:
        await _bring(place)
    told = await place.repository.run("cat-file", "commit", oid)
    return LeaseValue(oid, read_state(told.text.partition("\n\n")[2]) if told.ok else None)


async def _bring(place: LeasePlace) -> None:
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
             "--no-recurse-submodules")  # fmt: skip
    done = await place.repository.network(*words, place.remote, place.ref)
    if not done.ok:
        raise CannotAskError(of_command(done, f"read the lease from {place.remote}"))


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
        "push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
        f"--force-with-lease={place.ref}:{expected}", place.remote, f"{oid}:{place.ref}",
    )  # fmt: skip
    if done.ok:
        return True
    found = await read_lease(place)  # whatever was answered: this is what is true
    if found.oid == oid:
        return True
    if found.oid != expected:
        return False
    if done.timed_out:
        raise CannotAskError(of_command(done, f"take the lease on {place.remote}"))
    raise CannotAskError(f"the lease: {of_rejection(done, place.remote)}")
