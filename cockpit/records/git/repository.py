"""A git repository that records are written into: found from a file, asked by plain ``git``.

Commands have deadlines and never prompt (``cockpit.runtime.git``). GitPython's ``index`` and
``push`` are not used: they commit what the user has staged, invent an author and hide rejections.
Runs the user's own hooks, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.records.git.silence import LONG, note, silent
from cockpit.runtime.git import LOW_SPEED, quiet_ssh, run_git
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed, run_command

NOTHING: Final = ""
"""What stands for "does not exist" in a compare-and-swap, whatever the hash."""
NOT_ASKED: Final = 75
"""The exit status that stands for a remote which is not asked, because it gave no answer."""
_UNKNOWN: Final = "is not a git command"


@dataclass(frozen=True)
class Limits:
    """Seconds that each kind of work may take."""

    local: float = 15.0
    hook: float = 120.0
    network: float = 45.0
    locked: float = 5.0
    turn: float = 150.0


class GitError(Exception):
    """A ``git`` that failed; ``done`` is how."""

    def __init__(self, done: Completed) -> None:
        super().__init__(done.err.decode("utf-8", "replace"))
        self.done = done


class Blob(NamedTuple):
    """A file as a tree or the index has it."""

    mode: str
    oid: str


@dataclass(frozen=True)
class Repository:
    """A work tree; ``top`` is its root, ``folder`` its git directory, ``common`` the shared one."""

    top: Path
    folder: Path
    common: Path
    limits: Limits = field(default=Limits(), compare=False)

    async def run(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Completed:
        """Run ``git`` in the work tree's root; ``index`` is another index file to use."""
        extra = dict(env or {}) | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
        return await run_git(
            self.top, *words, stdin=stdin, env=extra, deadline=deadline or self.limits.local
        )

    async def ask(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Return what ``git`` prints, without the last line break; raise ``GitError``."""
        done = await self.run(*words, stdin=stdin, index=index, env=env)
        if not done.ok or done.cut:
            raise GitError(done)
        return done.text.removesuffix("\n")

    async def network(self, remote: str, *words: str, within: float | None = None) -> Completed:
        """Run a ``git`` that talks to ``remote``: no prompt, and nothing waits for ever.

        One that let somebody wait in vain a while ago is not asked: that is the answer then.
        ``within`` asks it all the same, for so many seconds.
        """
        local, patience = self.limits.local, within or self.limits.network
        known = await offload(silent, self.common, remote, patience, deadline=local)
        if known is not None and within is None:
            said = f"{remote} gives {known.text}"
            return Completed(NOT_ASKED, b"", said.encode(), timed_out=True)
        began = time.monotonic()
        quiet = await quiet_ssh(self.top, local)
        done = await run_git(self.top, *LOW_SPEED, *words, env=quiet, deadline=patience)
        vain = done.timed_out or (not done.ok and time.monotonic() - began >= LONG)
        patience = patience if known is None else max(patience, known.waited)
        remember = partial(note, self.common, remote, patience, answered=not vain)
        await offload(remember, deadline=local)
        return done

    async def setting(self, name: str) -> str | None:
        """Return a setting of the user's, ``None`` when it is not set."""
        done = await self.run("config", "--get", name)
        return done.text.strip() or None if done.ok else None

    async def oid(self, name: str) -> str | None:
        """Return the commit (or object) that a name stands for."""
        done = await self.run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return done.text.strip() or None if done.ok else None

    async def blob(self, commit: str, path: str) -> Blob | None:
        """Return a file as ``commit`` has it."""
        answer = await self.ask("ls-tree", "-z", "--full-tree", commit, "--", path)
        mode, kind, oid = [*answer.partition("\t")[0].split(" "), "", "", ""][:3]
        return Blob(mode, oid) if kind == "blob" else None

    async def staged(self, path: str, index: Path | None = None) -> Blob | None:
        """Return a file as the index has it."""
        words = ("--literal-pathspecs", "ls-files", "-s", "-z", "--", path)
        answer = await self.ask(*words, index=index)
        mode, oid = [*answer.partition("\t")[0].split(" "), "", ""][:2]
        return Blob(mode, oid) if oid else None

    async def content(self, blob: Blob | None, path: str | None = None) -> bytes:
        """Return a blob's bytes, nothing for none; with ``path`` as the work tree would have them.

        That is with the line ends and filters that the user has set for this path.
        """
        if blob is None:
            return b""
        how = ("blob",) if path is None else ("--filters", f"--path={path}")
        done = await self.run("cat-file", *how, blob.oid)
        if not done.ok or done.cut:
            raise GitError(done)
        return done.out

    async def keep(self, data: bytes, path: str | None = None) -> str:
        """Store bytes as a blob; with ``path`` as that file of the work tree would be."""
        how = "--no-filters" if path is None else f"--path={path}"
        return await self.ask("hash-object", "-w", how, "--stdin", stdin=data)

    async def branch(self) -> str | None:
        """Return the ref of the current branch, ``None`` when HEAD is detached.

        Raises ``GitError`` where ``git`` does not say.
        """
        done = await self.run("symbolic-ref", "-q", "HEAD")
        if not done.ok and done.rc != 1:
            raise GitError(done)
        return done.text.strip() or None if done.ok else None

    async def git_path(self, name: str) -> Path:
        """Return where ``git`` keeps one of its own files."""
        return self.top / await self.ask("rev-parse", "--git-path", name)


async def find_repository(path: Path, limits: Limits) -> Repository | Completed:
    """Return the repository that ``path`` (a real path, perhaps not there yet) belongs to.

    Else how ``git`` refused.
    """
    start = await offload(_existing, path, deadline=limits.local)
    words = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    done = await run_git(start, *words, deadline=limits.local)
    lines = os.fsdecode(done.out).splitlines()
    if not done.ok or len(lines) != 3:
        return done
    return Repository(Path(lines[0]), Path(lines[1]), start / lines[2], limits)


def _existing(path: Path) -> Path:
    """Return the nearest folder above ``path`` that is there."""
    return next((folder for folder in path.parents if folder.is_dir()), Path("/"))


class HookRefusedError(Exception):
    """A hook ended with a failure; ``name`` is which, ``done`` how, ``hint`` what helps."""

    def __init__(self, name: str, done: Completed | None, hint: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.done = done
        self.hint = hint


async def has_hook(repository: Repository, name: str) -> bool:
    """Return whether there is a hook of this name that git would run."""
    path = await repository.git_path(f"hooks/{name}")

    def runs() -> bool:
        return path.is_file() and os.access(path, os.X_OK)

    return await offload(runs, deadline=repository.limits.local)


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


async def run_by_hand(repository: Repository, name: str, *words: str, index: Path) -> Completed:
    """Run a hook for a git before 2.36, which cannot."""
    path = await repository.git_path(f"hooks/{name}")
    env = {"GIT_INDEX_FILE": str(index), "GIT_DIR": str(repository.folder), "GIT_EDITOR": ":"}
    return await run_command(
        (str(path), *words), deadline=repository.limits.hook, cwd=repository.top, env=env
    )
