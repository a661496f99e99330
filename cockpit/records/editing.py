"""One edit done to each version of a file: the work tree's, the index's and HEAD's (SPEC L)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cockpit.records import documents
from cockpit.records.committing import Change
from cockpit.records.repository import Repository
from cockpit.sources.offload import offload

Edit = Callable[[bytes], bytes]
_TRIES = 20


async def change_of(
    repository: Repository, own: str, path: Path, head: str | None, edits: Sequence[Edit]
) -> Change | None:
    """Return what is to be committed: the edits on HEAD's version, or the whole file.

    The whole file when HEAD does not have it, when the edits do not fit HEAD's version, or
    when a person asks to commit what a former process has left.
    """
    data = await offload(documents.read, path, deadline=repository.limits.local) or b""
    kept = None if head is None else await repository.blob(head, own)
    staged = await repository.staged(own)
    whole = await repository.keep(data, own)
    if kept is None:
        return Change(path=own, blob=whole, staged=whole)
    blob = await _edited_blob(repository, kept.oid, own, edits) if edits else whole
    blob = blob or whole
    if blob == kept.oid:
        return None
    if staged is None:  # its removal is staged
        return Change(path=own, blob=blob, staged=None)
    if staged == kept or not edits:
        return Change(path=own, blob=blob, staged=blob)
    theirs = await _edited_blob(repository, staged.oid, own, edits)
    return Change(path=own, blob=blob, staged=theirs or staged.oid)


async def _edited_blob(
    repository: Repository, oid: str, own: str, edits: Sequence[Edit]
) -> str | None:
    """Return a blob with the edits done; ``None`` where they cannot be done to it."""
    data = await repository.as_checked_out(oid, own)
    try:
        for edit in edits:
            data = await offload(edit, data, deadline=repository.limits.local)
    except ValueError:
        return None
    return await repository.keep(data, own)


def edited(path: Path, edit: Edit, spare: Path | None) -> None:
    """Edit the newest bytes of the file, whoever else writes it meanwhile; blocking."""
    if spare is not None:
        documents.sweep(spare)
    for _ in range(_TRIES):
        former = documents.read(path)
        data = edit(former or b"")
        if data == former or documents.replace(path, former, data, spare):
            return
    raise OSError(0, "keeps changing under us: close what writes it, then retry")
