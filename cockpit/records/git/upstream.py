"""Where a branch is pushed to, and one attempt to push there."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from cockpit.records.git.repository import NOT_ASKED, GitError, Repository
from cockpit.records.git.troubles import of_command, of_rejection
from cockpit.runtime.shell import Completed
from cockpit.text.safe import clean

_RACED: Final = re.compile(
    r"\[(?:remote )?rejected\] \((?:fetch first|non-fast-forward|stale info|"
    r"[^\n]*(?:cannot lock ref|failed to update ref|incorrect old value|already exists|"
    r"failed to lock))"
)
FETCH: Final = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
                 "--no-recurse-submodules")  # fmt: skip
LOOK_WITHIN: Final = 10.0
"""Seconds in which a remote must say whether a push that was cut off has landed."""
_PUSH: Final = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")


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
    words = (*_PUSH, f"--force-with-lease={to.ref}:{former}", to.remote, f"{commit}:{to.ref}")
    done = await repository.network(to.remote, *words)
    if done.ok:
        await _remember(repository, to, commit)
        return Landed.YES, None
    if done.timed_out and done.rc == NOT_ASKED:
        return Landed.NO, of_command(done, f"push to {to.remote}")
    if done.timed_out:
        return await _looked_up(repository, to, commit, done)
    if _RACED.search(done.text):
        return Landed.RACED, f"{to.remote} has moved"
    return Landed.NO, of_rejection(done, to.remote)


async def at_remote(
    repository: Repository, remote: str, *refs: str, within: float | None = None
) -> dict[str, str] | None:
    """Return what refs point at on a remote right now; ``None`` when it does not answer."""
    done = await repository.network(remote, "ls-remote", remote, *refs, within=within)
    if not done.ok:
        return None
    pairs = (line.partition("\t") for line in done.text.splitlines())
    return {ref: oid for oid, _, ref in pairs}


async def _looked_up(
    repository: Repository, to: Upstream, commit: str, done: Completed
) -> tuple[Landed, str | None]:
    """Ask whether a push that was cut off has landed after all."""
    within = min(LOOK_WITHIN, repository.limits.network)
    there = await at_remote(repository, to.remote, to.ref, within=within)
    if there is not None and there.get(to.ref) == commit:
        await _remember(repository, to, commit)
        return Landed.YES, None
    seconds = f"{repository.limits.network:g} s"
    if there is None:
        text = f"{to.remote} did not answer within {seconds}; the push may have landed: retry asks"
        return Landed.NO, text
    return Landed.NO, f"the push to {to.remote} was cut off after {seconds}; retry"


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
