"""Brings a logbook's commits to the remote, whoever else pushes meanwhile (SPEC A, L, S-10).

Nothing is pushed that the cockpit did not write: the branch needs an upstream, and every commit
ahead of it must be the cockpit's own. Otherwise the records stay here, and it is said why. If the
remote has moved, these commits are made anew on top of it (``replaying``).
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.records.git.file_lock import BusyError, held
from cockpit.records.git.merging import adds_nothing
from cockpit.records.git.replaying import (
    CannotReplayError,
    Replayed,
    is_ancestor,
    make_level,
    replay,
)
from cockpit.records.git.repository import GitError, Repository
from cockpit.records.git.upstream import Landed, Upstream, fetch, push, upstream_of
from cockpit.sources.git.code import NO_UPSTREAM, why_held

ATTEMPTS: Final = 12
SAVE_LOCK: Final = "cockpit-save.lock"
PUSH_LOCK: Final = "cockpit-push.lock"
NO_REMOTE: Final = "committed, but there is no remote to push to: git remote add origin URL"
NOT_PUSHED: Final = "committed, but not pushed: "


class Standing(NamedTuple):
    """How a branch's records stand; ``held`` is why they stay on this machine."""

    to: Upstream | None
    pushed: bool = False
    held: str | None = None


class Pushed(NamedTuple):
    """Whether the branch's logbook is on the remote, in which commit, and if not, why not."""

    done: bool
    commit: str | None
    trouble: str | None = None


async def standing_of(repository: Repository, branch: str, own: str) -> Standing:
    """Return whether ``own`` (a path in the branch) is on the remote, and if it may go there."""
    to = await upstream_of(repository, branch)
    if to is None:
        remotes = await repository.ask("remote")
        return Standing(None, held=f"{NOT_PUSHED}{NO_UPSTREAM}" if remotes else NO_REMOTE)
    head = await repository.ask("rev-parse", "--verify", branch)
    if await is_pushed(repository, head, to, own):
        return Standing(to, pushed=True)
    there = await repository.oid(to.tracking)
    return Standing(to, held=None if there is None else await _held(repository, to, there, head))


async def push_branch(
    repository: Repository, branch: str, to: Upstream, own: str, clock: Clock
) -> Pushed:
    """Push the current branch so that ``own`` (a path in it) is on the remote.

    One cockpit pushes at a time; whoever waited finds its commit pushed already. Raises
    ``BusyError``, ``GitError`` and ``OSError``.
    """
    async with held(repository.common / PUSH_LOCK, clock, repository.limits.turn):
        try:
            return await _push(repository, branch, to, own, clock)
        except CannotReplayError as error:
            return Pushed(False, None, f"{NOT_PUSHED}{error}")


async def _held(repository: Repository, to: Upstream, there: str, head: str) -> str | None:
    """Return why what lies between two commits may not be pushed; ``None`` if it may."""
    name = f"{to.remote}/{to.ref.removeprefix('refs/heads/')}"
    why = await why_held(repository.run, repository.common, there, head, name)
    return None if why is None else f"{NOT_PUSHED}{why}"


async def is_pushed(repository: Repository, head: str, to: Upstream, own: str) -> bool:
    """Return whether all that ``head`` has of a file is in what is known of the remote."""
    there = await repository.oid(to.tracking)
    if there is None:
        return False
    if await is_ancestor(repository, head, there):
        return True
    base = (await repository.run("merge-base", head, there)).text.strip()
    blobs = [await repository.blob(commit, own) for commit in (base, head, there) if commit]
    parts = [await repository.content(blob) for blob in blobs]
    return bool(base) and adds_nothing(*parts)


async def commit_of(repository: Repository, head: str, own: str) -> str | None:
    """Return the newest commit that changed a file."""
    words = ("--literal-pathspecs", "rev-list", "-1", head, "--", own)
    return await repository.ask(*words) or None


async def _push(
    repository: Repository, branch: str, to: Upstream, own: str, clock: Clock
) -> Pushed:
    trouble: str | None = None
    for attempt in range(ATTEMPTS):
        there = await repository.oid(to.tracking)
        if attempt or there is None:
            await clock.sleep(random.uniform(0.02, 0.1) * attempt)
            trouble = await fetch(repository, to)
            if trouble is not None:
                return Pushed(False, None, f"{NOT_PUSHED}{trouble}")
            there = await repository.ask("rev-parse", "--verify", to.tracking)
        head = await repository.ask("rev-parse", "--verify", branch)
        stays = await _held(repository, to, there, head)
        if stays is not None:
            return Pushed(False, None, stays)
        made = await _outgoing(repository, head, there, own)
        if made.tip == there:
            return await _arrived(repository, branch, head, made, own, clock)
        landed, trouble = await push(repository, to, there, made.tip)
        if landed is Landed.YES:
            return await _arrived(repository, branch, head, made, own, clock)
        if landed is Landed.NO:
            return Pushed(False, None, f"{NOT_PUSHED}{trouble}")
    text = f"others keep pushing to {to.remote}: {ATTEMPTS} attempts were rejected; retry"
    return Pushed(False, None, f"{NOT_PUSHED}{text}")


async def _outgoing(repository: Repository, head: str, there: str, own: str) -> Replayed:
    """Return what to push: the branch itself, or our commits on top of what others pushed."""
    if await is_ancestor(repository, there, head):
        return Replayed(head, head, True)
    if await is_ancestor(repository, head, there):
        return Replayed(there, head, False)
    return await replay(repository, head, there, own)


async def _arrived(
    repository: Repository, branch: str, head: str, made: Replayed, own: str, clock: Clock
) -> Pushed:
    """Bring the local branch level with what is on the remote, unless it has moved on."""
    if head not in (made.tip, made.base):
        # It is on the remote whatever happens here, and the next save levels again.
        with suppress(BusyError, GitError, OSError):
            async with held(repository.common / SAVE_LOCK, clock, repository.limits.turn):
                current = await repository.branch() == branch
                if current and await repository.oid(branch) == head:
                    await make_level(repository, branch, head, made, own)
    return Pushed(True, await commit_of(repository, made.tip, own))
