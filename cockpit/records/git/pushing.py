"""Brings a logbook's commits to the remote, whoever else pushes meanwhile (SPEC A, L, S-10).

Nothing is pushed that the cockpit did not write: the branch needs an upstream to which a plain
``git push`` would send it too, and every commit ahead of it must be the cockpit's own. Otherwise
the records stay here, with the reason. If the remote has moved, these commits are made again on top
of it (``merging.replay``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.records.git import merging
from cockpit.records.git.documents import BusyError, locked
from cockpit.records.git.repository import (
    NOT_ASKED,
    GitError,
    Repository,
    has_hook,
    of_command,
    of_rejection,
)
from cockpit.runtime.shell import Completed
from cockpit.sources.git.code import NO_UPSTREAM, pushed_elsewhere, why_held
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_RACED: Final = re.compile(
    r"\[(?:remote )?rejected\] \((?:fetch first|non-fast-forward|stale info|"
    r"[^\n]*(?:cannot lock ref|failed to update ref|incorrect old value|already exists|"
    r"failed to lock))"
)
"""Somebody else pushed before: ``! [rejected] (fetch first)``."""
FETCH: Final = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
                 "--no-recurse-submodules")  # fmt: skip
LANDED_WITHIN: Final = 10.0
"""Seconds in which a remote must say whether a push that was cut off has landed."""
PUSH: Final = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")


class Upstream(NamedTuple):
    """A branch of a remote; ``tracking`` is the local ref that remembers it."""

    remote: str
    ref: str
    tracking: str


class Landed(StrEnum):
    """What became of a push."""

    YES = "yes"
    RACED = "raced"
    NO = "no"


async def upstream_of(repository: Repository, branch: str) -> Upstream | None:
    """Return the upstream of ``branch`` on a remote, as the user has set it; else none."""
    form = "--format=%(upstream:remotename)%00%(upstream:remoteref)%00%(upstream)"
    answer = await repository.ask("for-each-ref", form, branch)
    remote, ref, tracking = ([*answer.split("\n")[0].split("\0"), "", "", ""])[:3]
    if remote and remote != "." and ref:
        return Upstream(remote, ref, tracking or _tracking(remote, ref))
    return None


async def remote_now(repository: Repository) -> str | None:
    """Return the remote of the current branch, else the one that is meant when none is named."""
    branch = await repository.branch()
    to = None if branch is None else await upstream_of(repository, branch)
    return await remote_of(repository) if to is None else to.remote


async def remote_of(repository: Repository) -> str | None:
    """Return the remote that is meant when none is named: the only one, or ``origin``."""
    names = (await repository.ask("remote")).split()
    if len(names) == 1:
        return names[0]
    return "origin" if "origin" in names else None


async def fetch(repository: Repository, to: Upstream) -> str | None:
    """Bring the tracking ref up to date; return what stood in the way."""
    done = await repository.network(to.remote, *FETCH, to.remote, f"+{to.ref}:{to.tracking}")
    if done.ok:
        return None
    if b"couldn't find remote ref" in done.err:
        return no_branch(to)
    return of_command(done, f"fetch from {to.remote}")


def no_branch(to: Upstream) -> str:
    """Return what to do about an upstream that is not there: the cockpit makes no new branch."""
    short = clean(to.ref.removeprefix("refs/heads/"))
    return f"{clean(to.remote)} has no branch {short}: push it once yourself, then retry"


async def push(
    repository: Repository, to: Upstream, former: str, commit: str
) -> tuple[Landed, str | None]:
    """Move a remote's branch from ``former`` to ``commit``; return what became of it, and why not.

    It moves from that very commit or not at all: what goes out is what lies between the two,
    whatever has happened here or there since that was looked at.
    """
    words = (*PUSH, f"--force-with-lease={to.ref}:{former}", to.remote, f"{commit}:{to.ref}")
    done = await repository.network(to.remote, *words)
    if done.ok:
        await _remember(repository, to, commit)
        return Landed.YES, None
    if done.timed_out and done.rc == NOT_ASKED:
        return Landed.NO, of_command(done, f"push to {to.remote}")
    if done.timed_out:
        return await _looked_up(repository, to, commit, done)
    places = await repository.push_places(to.remote)
    if len(places) > 1 and await _is_at_any(repository, places, to.ref, commit):
        text = f"not every place that {to.remote} is pushed to has taken it"
        return Landed.NO, f"{text}: {of_rejection(done, to.remote)}"
    if _RACED.search(done.text):
        return Landed.RACED, of_rejection(done, to.remote)
    return Landed.NO, of_rejection(done, to.remote)


async def at_remote(
    repository: Repository, remote: str, *refs: str, within: float | None = None
) -> dict[str, str] | None:
    """Return what refs point at right now where a remote is pushed to; ``None``: no answer."""
    done, there = await ask_remote(repository, remote, *refs, within=within)
    return there if done.ok else None


async def ask_remote(
    repository: Repository, remote: str, *refs: str, within: float | None = None
) -> tuple[Completed, dict[str, str]]:
    """Ask the place that a remote is pushed to; return how that ended, and where the refs are."""
    place = await repository.pushed_to(remote)
    done = await repository.network(remote, "ls-remote", place, *refs, within=within)
    pairs = (line.partition("\t") for line in done.text.splitlines())
    return done, {ref: oid for oid, _, ref in pairs}


async def _is_at_any(repository: Repository, places: Sequence[str], ref: str, commit: str) -> bool:
    found = [await at_remote(repository, place, ref, within=LANDED_WITHIN) for place in places]
    return any(each is not None and each.get(ref) == commit for each in found)


async def _looked_up(
    repository: Repository, to: Upstream, commit: str, done: Completed
) -> tuple[Landed, str | None]:
    """Ask whether a push that was cut off has landed after all."""
    within = min(LANDED_WITHIN, repository.limits.network)
    there = await at_remote(repository, to.remote, to.ref, within=within)
    if there is not None and there.get(to.ref) == commit:
        await _remember(repository, to, commit)
        return Landed.YES, None
    seconds = f"{repository.limits.network:g} s"
    if there is None:
        text = f"{to.remote} did not answer within {seconds}; the push may have landed: retry asks"
        return Landed.NO, text
    slow = "its pre-push hook takes too long: push yourself, or "
    helps = slow if await has_hook(repository, "pre-push") else ""
    return Landed.NO, f"the push to {to.remote} was cut off after {seconds}; {helps}retry"


async def _remember(repository: Repository, to: Upstream, commit: str) -> None:
    """Let the tracking ref say what the remote has, also where git would not."""
    if await repository.oid(to.tracking) != commit:
        try:
            await repository.ask("update-ref", to.tracking, commit)
        except GitError:  # it is only a memory: the next fetch brings it
            return


def _tracking(remote: str, ref: str) -> str:
    name = re.sub(r"[^\w-]+", "-", remote) if ":" in remote else remote
    return f"refs/remotes/{name}/{ref.removeprefix('refs/heads/')}"


ATTEMPTS: Final = 12
"""How often a push is made again on top of what others pushed meanwhile."""
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
    elsewhere = await pushed_elsewhere(repository.run, branch)
    if elsewhere is not None:
        return Standing(to, held=f"{NOT_PUSHED}{elsewhere}")
    there = await repository.oid(to.tracking)
    return Standing(
        to, held=None if there is None else await _why_not_pushable(repository, to, there, head)
    )


async def push_branch(
    repository: Repository, branch: str, to: Upstream, own: str, clock: Clock
) -> Pushed:
    """Push the current branch so that ``own`` (a path in it) is on the remote.

    One cockpit pushes at a time; whoever waited finds its commit pushed already. Raises
    ``BusyError``, ``GitError`` and ``OSError``.
    """
    async with locked(repository.common / PUSH_LOCK, clock, repository.limits.turn):
        try:
            return await _push(repository, branch, to, own, clock)
        except merging.CannotReplayError as error:
            return Pushed(False, None, f"{NOT_PUSHED}{error}")


async def _why_not_pushable(
    repository: Repository, to: Upstream, there: str, head: str
) -> str | None:
    """Return why what lies between two commits may not be pushed; ``None`` if it may."""
    name = f"{to.remote}/{to.ref.removeprefix('refs/heads/')}"
    why = await why_held(repository.run, repository.common, there, head, name)
    return None if why is None else f"{NOT_PUSHED}{why}"


async def is_pushed(repository: Repository, head: str, to: Upstream, own: str) -> bool:
    """Return whether all that ``head`` has of a file is in what is known of the remote."""
    there = await repository.oid(to.tracking)
    if there is None:
        return False
    if await merging.is_ancestor(repository, head, there):
        return True
    base = (await repository.run("merge-base", head, there)).text.strip()
    blobs = [await repository.blob(commit, own) for commit in (base, head, there) if commit]
    parts = [await repository.content(blob) for blob in blobs]
    return bool(base) and merging.adds_nothing(*parts)


async def commit_of(repository: Repository, head: str, own: str) -> str | None:
    """Return the newest commit that changed a file."""
    words = ("--literal-pathspecs", "rev-list", "-1", head, "--", own)
    return await repository.ask(*words) or None


async def _push(
    repository: Repository, branch: str, to: Upstream, own: str, clock: Clock
) -> Pushed:
    trouble, seen = None, set[str]()
    for attempt in range(ATTEMPTS):
        there = await repository.oid(to.tracking)
        if attempt or there is None:
            await clock.sleep(random.uniform(0.02, 0.1) * attempt)
            trouble = await fetch(repository, to)
            if trouble is not None:
                return Pushed(False, None, f"{NOT_PUSHED}{trouble}")
            there = await repository.ask("rev-parse", "--verify", to.tracking)
        head = await repository.ask("rev-parse", "--verify", branch)
        stays = await _why_not_pushable(repository, to, there, head)
        if stays is not None:
            return Pushed(False, None, stays)
        made = await _outgoing(repository, head, there, own, to)
        seen.add(there)
        if made.tip == there:
            return await _arrived(repository, branch, head, made, own, clock)
        landed, trouble = await push(repository, to, there, made.tip)
        if landed is Landed.YES:
            return await _arrived(repository, branch, head, made, own, clock)
        if landed is Landed.NO:
            return Pushed(False, None, f"{NOT_PUSHED}{trouble}")
    why = f"others keep pushing to {to.remote}" if len(seen) > 1 else trouble
    place = await repository.pushed_to(to.remote)
    if len(seen) == 1 and place != to.remote:
        why = f"{to.remote} is pushed to {clean(scrub(place), 200)}, which stands elsewhere: {why}"
    return Pushed(False, None, f"{NOT_PUSHED}{why} ({ATTEMPTS} attempts)")


async def _outgoing(
    repository: Repository, head: str, there: str, own: str, to: Upstream
) -> merging.Replayed:
    """Return what to push: the branch itself, or our commits on top of what others pushed."""
    if await merging.is_ancestor(repository, head, there):
        return merging.Replayed(there, head, False)
    await _check_not_taken_out(repository, head, there, to)
    if await merging.is_ancestor(repository, there, head):
        return merging.Replayed(head, head, True)
    return await merging.replay(repository, head, there, own)


async def _check_not_taken_out(repository: Repository, head: str, there: str, to: Upstream) -> None:
    """Raise ``CannotReplayError`` where the push would bring back what was taken out there.

    A copy that lags behind the place that is pushed to lacks commits as well: so that place is
    asked. If it stands elsewhere, it refuses the push.
    """
    published = await merging.fork_point(repository, to.tracking, head)
    if published is None or await merging.is_ancestor(repository, published, there):
        return
    done, now = await ask_remote(repository, to.remote, to.ref)
    if not done.ok:
        raise GitError(done)
    if now.get(to.ref) == there:
        raise merging.CannotReplayError(
            "the upstream was rewritten: it lacks commits that it had, and this branch still has "
            "them; pull (git pull --rebase) by hand, then retry"
        )


async def _arrived(
    repository: Repository, branch: str, head: str, made: merging.Replayed, own: str, clock: Clock
) -> Pushed:
    """Bring the local branch level with what is on the remote, unless it has moved on."""
    if head not in (made.tip, made.base):
        # It is on the remote whatever happens here, and the next save levels again.
        with suppress(BusyError, merging.CannotReplayError, GitError, OSError):
            async with locked(repository.common / SAVE_LOCK, clock, repository.limits.turn):
                current = await repository.branch() == branch
                if current and await repository.oid(branch) == head:
                    await merging.make_level(repository, branch, head, made, own)
    return Pushed(True, await commit_of(repository, made.tip, own))
