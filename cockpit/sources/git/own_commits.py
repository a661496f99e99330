"""Which commits of a checkout the cockpit made: it pushes these and no others (SPEC A).

A commit is the cockpit's own when its id stands in a list beside the repository, where it is put
before a branch moves to it. Author, message and changed files prove nothing: whoever amends,
rebases or merges a record makes another commit, which the list does not hold.

The list also holds which bytes the cockpit wrote over which, so that a file which was written and
not yet committed when the program was killed can still be told from a person's text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LIST: Final = "cockpit-wrote"
MOST: Final = 4_000_000
"""Bytes of the list's end that are read: about 80,000 commits, years of records."""
NAMED: Final = 3
"""Commits of others that a line names."""
COMMIT: Final = "commit"
FILE: Final = "file"
NO_UPSTREAM: Final = "the branch has no upstream: git push -u REMOTE once"
_DEADLINE: Final = 10.0
Git = Callable[..., Awaitable[Completed]]


class OtherCommit(NamedTuple):
    """A commit that waits to be pushed and that the cockpit did not write."""

    oid: str
    subject: str


def wrote_file(common: Path, start: bytes, end: bytes) -> bool:
    """Return whether the cockpit's writing alone leads from ``start`` to ``end``; blocking."""
    steps: dict[str, set[str]] = {}
    for kind, *digests in _lines(common):
        if kind == FILE and len(digests) == 2:
            steps.setdefault(digests[0], set()).add(digests[1])
    reached, waiting, goal = set[str](), {digest(start)}, digest(end)
    while waiting and goal not in reached:
        reached |= waiting
        waiting = {after for each in waiting for after in steps.get(each, ())} - reached
    return goal in reached


def own_commits(common: Path) -> frozenset[str]:
    """Return the ids of the commits that the cockpit made; blocking."""
    return frozenset(words[1] for words in _lines(common) if words[0] == COMMIT and words[1:])


async def others_among(
    git: Git, own: frozenset[str], *revisions: str
) -> tuple[OtherCommit, ...] | None:
    """Return the commits of a range that the cockpit did not write, the newest first.

    ``None`` where git does not tell.
    """
    done = await git("log", "-z", "--format=%H %s", *revisions, "--")
    if not done.ok or done.cut:
        return None
    found = (line.partition(" ") for line in done.text.split("\0") if line)
    return tuple(OtherCommit(oid, subject) for oid, _, subject in found if oid not in own)


async def why_held(git: Git, common: Path, upstream: str, head: str, name: str) -> str | None:
    """Return why the commits between ``upstream`` (called ``name``) and ``head`` stay here.

    ``None`` if they may be pushed.
    """
    own = await offload(own_commits, common, deadline=_DEADLINE)
    others = await others_among(git, own, f"{upstream}..{head}")
    if others is None:
        return "git does not tell which commits wait; retry"
    return held_back(others, name) if others else None


def held_back(others: tuple[OtherCommit, ...], upstream: str) -> str:
    """Return why records stay on this machine, and what lets them go."""
    what, named = named_commits(others)
    return (
        f"{what} that the cockpit did not write would go to {clean(upstream)} as well "
        f"({named}): push yourself, then the records follow"
    )


def named_commits(others: tuple[OtherCommit, ...]) -> tuple[str, str]:
    """Return how many commits these are, and the first of them by name."""
    named = ", ".join(f"{each.oid[:7]} {scrub(clean(each.subject, 60))}" for each in others[:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return "a commit" if len(others) == 1 else f"{len(others)} commits", f"{named}{more}"


def _lines(common: Path) -> list[list[str]]:
    try:
        with (common / LIST).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MOST))
            data = file.read(MOST)
    except OSError:
        return []
    return [
        words for line in data.decode("ascii", "replace").split("\n") if (words := line.split())
    ]


def digest(data: bytes) -> str:
    """Return what tells a file's bytes from any others."""
    return hashlib.sha256(data).hexdigest()
