"""What forbids a commit at this moment, looked at before anything is committed."""

from __future__ import annotations

from typing import Final

from cockpit.records.repository import Repository
from cockpit.sources.offload import offload
from cockpit.text.safe import clean

_UNDER_WAY: Final = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


async def obstacle(repository: Repository, own: str) -> str | None:
    """Return why nothing may be committed now and what helps, or ``None``."""
    for name, what in _UNDER_WAY.items():
        place = await repository.git_path(name)
        if await offload(place.exists, deadline=repository.limits.local):
            return f"saved, but {what} is under way in {_where(repository)}: finish it, then retry"
    if await repository.branch() is None:
        return "saved, but HEAD is detached: check out a branch, then retry"
    if await repository.ask("ls-files", "-u"):
        return f"saved, but {_where(repository)} has unmerged files: resolve them, then retry"
    return await _ignored(repository, own)


async def _ignored(repository: Repository, own: str) -> str | None:
    ignored = (await repository.run("check-ignore", "-q", "--", own)).ok
    if not ignored or await repository.staged(own) is not None:
        return None
    done = await repository.run("check-ignore", "-v", "--", own)
    rule = clean(done.text.partition("\t")[0])
    return f"saved, but git ignores {clean(own, 1000)} ({rule}): change the rule, then retry"


def _where(repository: Repository) -> str:
    return clean(repository.top, 4096)
