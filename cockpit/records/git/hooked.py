"""A commit's file as a pre-commit hook leaves it: formatters rewrite what they are shown.

A hook may change the file in the index that it is given, or in the work tree, and may refuse so
that its version is committed next time. Its version is taken if it still holds the entry, and the
hook is asked once more. A work tree's file that also holds a person's uncommitted text is never
taken whole: what a hook makes of it counts only if it adds no letter to what we wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cockpit.records.git import documents
from cockpit.records.git.repository import Blob, HookRefusedError, Repository, run_hook
from cockpit.runtime.offload import offload

HOOK = "pre-commit"
MIXED = "the file also holds changes of yours: commit them yourself, then retry"
LOST = "it took the entry out of the file: commit by hand"


class Hooked(NamedTuple):
    """The file to commit; ``same``: the hook has changed no letter of it."""

    blob: Blob
    same: bool = True


class CommitFile(NamedTuple):
    """What a hook is shown: a file's new blob in an index of its own, and what tells our entry."""

    path: str
    blob: Blob
    holds: Callable[[bytes], bool]


async def past_hook(repository: Repository, index: Path, file: CommitFile) -> Hooked:
    """Run the hook and return what it makes of the file; raises ``HookRefusedError``."""
    place = documents.real_path(repository.top / file.path)
    limit = repository.limits.local
    before = await offload(documents.read, place, deadline=limit)
    alone = before == await repository.content(file.blob, file.path)
    refused = await _refusal(repository, index)
    after = await offload(documents.read, place, deadline=limit)
    made = await repository.staged(file.path, index) or file.blob
    if made.oid == file.blob.oid and alone and after and after != before:
        made = Blob(made.mode, await repository.keep(after, file.path))
    if made.oid == file.blob.oid:
        if refused is not None:
            refused.hint = MIXED if after != before else ""
            raise refused
        return Hooked(file.blob)
    ours, theirs = [await repository.content(each) for each in (file.blob, made)]
    same = _letters(ours) == _letters(theirs)
    if not same and not (alone and file.holds(theirs)):
        raise HookRefusedError(HOOK, None if refused is None else refused.done, _why(alone))
    if alone and after is not None:
        wanted = await repository.content(made, file.path)
        if wanted != after:
            await offload(
                documents.replace, place, after, wanted, repository.folder, deadline=limit
            )
    return Hooked(made, same)


def _why(alone: bool) -> str:
    return LOST if alone else MIXED


async def _refusal(repository: Repository, index: Path) -> HookRefusedError | None:
    try:
        await run_hook(repository, HOOK, index=index)
    except HookRefusedError as error:
        if error.done is None or error.done.timed_out:
            raise
        return error
    return None


def _letters(data: bytes) -> str:
    """Return what a formatter leaves as it is: it moves marks, blanks and line breaks."""
    return "".join(filter(str.isalpha, data.decode("utf-8", "replace")))
