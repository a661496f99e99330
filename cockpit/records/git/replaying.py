"""Our commits brought on top of what others have pushed, without a rebase in the work tree.

New commits are made from objects alone. Only commits that touch nothing but logbooks are ours
to make anew; if the branch has others that are not pushed, a person has to say how they go on.

After the push the local branch is brought level with the remote. Where others have only written
logbooks, it goes to what was pushed. Where they have changed code as well, the code that is
checked out stays (a run may be launched from it): the branch keeps its place with one commit
that has the logbooks as they are on the remote, so that a later pull finds both sides alike.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cockpit.model.base import Frozen
from cockpit.records.git import documents
from cockpit.records.git.committing import make_commit, noted, patiently, put, scratch, start_index
from cockpit.records.git.merging import merge
from cockpit.records.git.repository import Blob, Repository
from cockpit.runtime.offload import offload

_IDENTITY = "%an%x00%ae%x00%ad"
_DATE = "--date=raw"
_TRIES = 5


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
        raise CannotReplayError("the branch and its upstream share no history: pull by hand")
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
    listing = await repository.ask("rev-list", "--reverse", "--parents", f"{base}..{head}")
    ours = []
    for line in listing.splitlines():
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
    answer = await repository.ask("show", "-s", _DATE, f"--format={_IDENTITY}%x00%B", ours.commit)
    name, mail, date, message = answer.split("\0", 3)
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
        await repository.content(base),
        await repository.content(mine),
        await repository.content(theirs),
        deadline=repository.limits.local,
    )
    made = await repository.keep(data)
    return None if made == theirs.oid else Blob(theirs.mode, made)


class _File(NamedTuple):
    """One logbook that is to become another blob."""

    path: str
    old: Blob | None
    new: Blob


async def make_level(
    repository: Repository, branch: str, head: str, made: Replayed, own: str
) -> str:
    """Bring the branch, the index and the work tree's logbooks level; return the branch's commit.

    Files first, then the index, then the branch: a crash in between leaves additions that are
    not committed, never a removal of what others wrote. Raises ``GitError`` and ``OSError``.
    """
    goal = made.tip if made.follows else await _beside(repository, head, made, own)
    for path in await changed(repository, head, goal):
        new = await repository.blob(goal, path)
        if new is not None:
            file = _File(path, await repository.blob(head, path), new)
            await _write(repository, file)
            await _stage(repository, file)

    async def move() -> None:
        await repository.ask("update-ref", "-m", "cockpit: follow the upstream", branch, goal, head)

    if goal != head:
        await noted(repository, goal)
        await patiently(repository, move)
    return goal


async def _beside(repository: Repository, head: str, made: Replayed, own: str) -> str:
    """Return a commit with the code of ``head`` and the logbooks of ``made.tip``."""
    ours = [path for path in await changed(repository, made.base, head) if is_logbook(path, own)]
    blobs = {path: await repository.blob(made.tip, path) for path in ours}
    single = await repository.oid(f"{head}^") == made.base
    if single and all([await repository.blob(head, path) == blobs[path] for path in blobs]):
        return head
    async with scratch(repository, "index") as index:
        await start_index(repository, index, head)
        for path, blob in blobs.items():
            if blob is not None:
                await put(repository, index, path, blob)
        tree = await repository.ask("write-tree", index=index)
    message = await repository.ask("show", "-s", "--format=%B", head)
    return await make_commit(repository, tree, (made.base,), message)


async def _stage(repository: Repository, file: _File) -> None:
    """Let the index follow; what the user has staged of this file is kept in it."""
    staged = await repository.staged(file.path)
    if staged is None and file.old is not None:  # its removal is staged
        return
    if staged is None or staged == file.old:
        blob = file.new
    else:
        parts = [await repository.content(each) for each in (file.old, staged, file.new)]
        data = await offload(merge, *parts, deadline=repository.limits.local)
        blob = Blob(staged.mode, await repository.keep(data))
    await patiently(repository, lambda: put(repository, None, file.path, blob))


async def _write(repository: Repository, file: _File) -> None:
    """Let the file follow; what a person has written there and not committed is kept in it."""
    place = documents.real_path(repository.top / file.path)
    old = await repository.content(file.old, file.path)
    new = await repository.content(file.new, file.path)
    for _ in range(_TRIES):
        if await offload(_follow, repository, place, old, new, deadline=repository.limits.local):
            return
    raise OSError(0, "keeps changing meanwhile")


def _follow(repository: Repository, place: Path, old: bytes, new: bytes) -> bool:
    found = documents.read(place)
    if found is None and old:  # a person has removed it
        return True
    data = merge(old, found or b"", new) if found else new
    if data == found:
        return True
    return documents.replace(place, found, data, repository.folder)
