"""The local branch after a push: level with the remote, nobody's other files touched.

Where others have only written logbooks, the branch goes to what was pushed. Where they have
changed code as well, the code that is checked out stays (a run may be launched from it): the
branch keeps its place with one commit that has the logbooks as they are on the remote, so that
a later pull finds both sides alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cockpit.records import documents
from cockpit.records.committing import make_commit, patiently, put, scratch, start_index
from cockpit.records.merging import merge
from cockpit.records.replaying import Replayed, changed, is_logbook
from cockpit.records.repository import Blob, Repository
from cockpit.sources.offload import offload

_TRIES = 5


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
        base = b"" if file.old is None else await repository.content(file.old.oid)
        parts = (base, await repository.content(staged.oid), await repository.content(file.new.oid))
        data = await offload(merge, *parts, deadline=repository.limits.local)
        blob = Blob(staged.mode, await repository.keep(data))
    await patiently(repository, lambda: put(repository, None, file.path, blob))


async def _write(repository: Repository, file: _File) -> None:
    """Let the file follow; what a person has written there and not committed is kept in it."""
    place = documents.real_path(repository.top / file.path)
    old = b"" if file.old is None else await repository.as_checked_out(file.old.oid, file.path)
    new = await repository.as_checked_out(file.new.oid, file.path)
    for _ in range(_TRIES):
        if await offload(_follow, repository, place, old, new, deadline=repository.limits.local):
            return
    raise OSError(0, "keeps changing under us")


def _follow(repository: Repository, place: Path, old: bytes, new: bytes) -> bool:
    found = documents.read(place)
    if found is None and old:  # a person has removed it
        return True
    data = merge(old, found or b"", new) if found else new
    if data == found:
        return True
    return documents.replace(place, found, data, repository.folder)
