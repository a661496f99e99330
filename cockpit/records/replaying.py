"""Our commits brought on top of what others have pushed, without a rebase in the work tree.

New commits are made from objects alone. Only commits that touch nothing but logbooks are ours
to make anew; if the branch has others that are not pushed, a person has to say how they go on.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from cockpit.model.base import Frozen
from cockpit.records.committing import make_commit, put, scratch, start_index
from cockpit.records.merging import merge
from cockpit.records.repository import Blob, Repository
from cockpit.sources.offload import offload

_IDENTITY = "%an%x00%ae%x00%ad"
_DATE = "--date=raw"


class CannotReplayError(Exception):
    """The branch has to be brought up to date by a person; the message is one line."""


class Replayed(NamedTuple):
    """Our commits on top of the upstream: ``tip`` is the last of them.

    ``follows`` tells that the local branch can simply go there: all that others changed are
    logbooks. ``base`` is where the two parted.
    """

    tip: str
    base: str
    follows: bool


class _Ours(Frozen):
    """One commit of ours and the files that it changed."""

    commit: str
    parent: str
    paths: tuple[str, ...]


def is_logbook(path: str, own: str) -> bool:
    """Return whether a changed file is ``own`` or another logbook beside it."""
    folder, mine = PurePosixPath(path).parent, PurePosixPath(own).parent
    beside = folder == mine and mine != PurePosixPath(".")
    return path == own or (beside and path.endswith(".md"))


async def is_ancestor(repository: Repository, old: str, new: str) -> bool:
    """Return whether ``new`` holds everything that ``old`` does."""
    return (await repository.run("merge-base", "--is-ancestor", old, new)).ok


async def replay(repository: Repository, head: str, onto: str, own: str) -> Replayed:
    """Return our commits between ``onto`` and ``head`` made anew on top of ``onto``.

    Raises ``CannotReplayError`` and ``GitError``.
    """
    found = await repository.run("merge-base", onto, head)
    base = found.text.strip()
    if not found.ok:
        raise CannotReplayError("the branch and its upstream have nothing in common: pull by hand")
    ours = await _ours(repository, base, head, own)
    tip = onto
    for commit in ours:
        tip = await _one(repository, commit, tip)
    theirs = await changed(repository, base, onto)
    gone = await changed(repository, base, onto, "--diff-filter=DT")
    follows = not gone and all(is_logbook(path, own) for path in theirs)
    return Replayed(tip, base, follows)


async def changed(repository: Repository, old: str, new: str, *how: str) -> tuple[str, ...]:
    """Return the files that differ between two commits."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", *how, old, new)
    return tuple(name for name in (await repository.ask(*words)).split("\0") if name)


async def _ours(repository: Repository, base: str, head: str, own: str) -> list[_Ours]:
    told = await repository.ask("rev-list", "--reverse", "--parents", f"{base}..{head}")
    ours = []
    for line in told.splitlines():
        commit, *parents = line.split()
        paths = await changed(repository, parents[0], commit) if len(parents) == 1 else ()
        if len(parents) != 1 or not all(is_logbook(path, own) for path in paths):
            raise CannotReplayError(
                "the upstream has moved, and this branch has commits of other files that are "
                "not pushed: pull (merge or rebase) by hand, then retry"
            )
        ours.append(_Ours(commit=commit, parent=parents[0], paths=paths))
    return ours


async def _one(repository: Repository, ours: _Ours, onto: str) -> str:
    """Return one commit of ours on top of ``onto``, or that itself if nothing is missing."""
    joined = {path: await _joined(repository, ours, path, onto) for path in ours.paths}
    wanted = {path: blob for path, blob in joined.items() if blob is not None}
    if not wanted:
        return onto
    async with scratch(repository, "index") as index:
        await start_index(repository, index, onto)
        for path, blob in wanted.items():
            await put(repository, index, path, blob)
        tree = await repository.ask("write-tree", index=index)
    told = await repository.ask("show", "-s", _DATE, f"--format={_IDENTITY}%x00%B", ours.commit)
    name, mail, date, message = told.split("\0", 3)
    env = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": date}
    return await make_commit(repository, tree, (onto,), message, env)


async def _joined(repository: Repository, ours: _Ours, path: str, onto: str) -> Blob | None:
    """Return what ``path`` becomes on top of ``onto``; ``None`` if it stays as it is there."""
    mine = await repository.blob(ours.commit, path)
    theirs = await repository.blob(onto, path)
    base = await repository.blob(ours.parent, path)
    if mine is None:  # a logbook is never deleted in our name
        return None
    if theirs is None:
        return mine
    data = await offload(
        merge,
        b"" if base is None else await repository.content(base.oid),
        await repository.content(mine.oid),
        await repository.content(theirs.oid),
        deadline=repository.limits.local,
    )
    made = await repository.keep(data)
    return None if made == theirs.oid else Blob(theirs.mode, made)
