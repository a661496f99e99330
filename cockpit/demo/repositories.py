"""The demo's git repositories: real ones, each with a real bare remote, nobody's hooks or keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from git import Actor, GitError, Repo

__all__ = ["GitError", "Repository"]

BRANCH = "main"
AUTHOR = Actor("cockpit demo", "demo@localhost")


class Repository:
    """A work tree and the bare remote that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self._repo = Repo(folder)
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, remote: Path) -> Repository:
        """Make the repository in ``folder`` (which may hold files already) and its remote."""
        for path, bare in ((remote, True), (folder, False)):
            path.mkdir(parents=True, exist_ok=True)
            with Repo.init(path, bare=bare) as empty:
                empty.git.symbolic_ref("HEAD", f"refs/heads/{BRANCH}")
                with empty.config_writer() as config:
                    config.set_value("core", "hooksPath", os.devnull)
        made = cls(folder)
        made._repo.create_remote("origin", str(remote))
        return made

    def commit(self, files: Sequence[Path], message: str) -> str:
        """Commit ``files``; return the commit's id. Not signed, and no hook runs."""
        self._repo.index.add([str(file) for file in files])
        made = self._repo.index.commit(message, author=AUTHOR, committer=AUTHOR, skip_hooks=True)
        return made.hexsha

    def push(self) -> None:
        """Push the branch and remember what the remote has."""
        self._repo.git.push("origin", BRANCH, set_upstream=True, quiet=True)

    def head(self) -> str:
        """Return the id of the newest commit."""
        return self._repo.head.commit.hexsha

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._repo.close()
