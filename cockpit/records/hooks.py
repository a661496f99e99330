"""The user's own git hooks around a commit that is made from objects (SPEC L, S-10).

``git commit`` is not used: killed at its deadline it leaves ``index.lock`` behind, and it takes
whatever stands in the file, also what somebody is in the middle of writing there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cockpit.records.repository import Repository
from cockpit.sources.offload import offload
from cockpit.sources.shell import Completed, run_command

_UNKNOWN: Final = "is not a git command"


class HookRefusedError(Exception):
    """A hook ended with a failure; ``name`` is which, ``done`` how."""

    def __init__(self, name: str, done: Completed) -> None:
        super().__init__(name)
        self.name = name
        self.done = done


async def has_hook(repository: Repository, name: str) -> bool:
    """Return whether there is a hook of this name that git would run."""
    path = await repository.git_path(f"hooks/{name}")
    return await offload(_runs, path, deadline=repository.limits.local)


async def run_hook(repository: Repository, name: str, *words: str, index: Path) -> None:
    """Run a hook as ``git commit`` does; raise ``HookRefusedError`` if it fails."""
    if not await has_hook(repository, name):
        return
    deadline = repository.limits.hook
    given = ("--", *words) if words else ()
    done = await repository.run("hook", "run", name, *given, index=index, deadline=deadline)
    if _UNKNOWN in done.err.decode("utf-8", "replace"):
        done = await run_by_hand(repository, name, *words, index=index)
    if not done.ok:
        raise HookRefusedError(name, done)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


async def run_by_hand(repository: Repository, name: str, *words: str, index: Path) -> Completed:
    """Run a hook for a git before 2.36, which cannot."""
    path = await repository.git_path(f"hooks/{name}")
    env = {"GIT_INDEX_FILE": str(index), "GIT_DIR": str(repository.folder), "GIT_EDITOR": ":"}
    return await run_command(
        (str(path), *words), deadline=repository.limits.hook, cwd=repository.top, env=env
    )
