"""The demo's git repositories: real ones, each with a bare remote, and only their own hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from git import Actor, GitCommandError, GitError, Repo

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
                hooks = Path(empty.git_dir) / "hooks"
                _emptied(hooks)
                with empty.config_writer() as config:
                    config.set_value("core", "hooksPath", str(hooks))
                    for key, value in _missing_identity(empty):
                        config.set_value("user", key, value)
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


def _emptied(hooks: Path) -> None:
    """Leave no hook in the folder: the user's template may have put some there."""
    hooks.mkdir(exist_ok=True)
    for hook in hooks.iterdir():
        hook.unlink()


def _missing_identity(repo: Repo) -> Iterator[tuple[str, str]]:
    """Yield who commits here, where a person has not told git who they are."""
    for key, value in (("name", AUTHOR.name), ("email", AUTHOR.email)):
        try:
            repo.git.config("--get", f"user.{key}")
        except GitCommandError:
            yield key, str(value)
