"""Real git repositories that several people share through a bare remote."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

LOGBOOK = ".agents/logbooks/run.md"
START = b"# Run: Hero Run Logbook\n\n## Event Log\n"


def git(folder: Path, *words: str, ok: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    assert not ok or done.returncode == 0, (words, done.stderr)
    return done.stdout


def shared(root: Path) -> Path:
    """A repository with a logbook and code, pushed to ``root/remote.git``; returns the clone."""
    bare = root / "remote.git"
    git(root, "init", "-q", "--bare", "-b", "main", str(bare))
    first = root / "ada"
    git(root, "clone", "-q", str(bare), str(first))
    git(first, "checkout", "-q", "-b", "main")
    (first / LOGBOOK).parent.mkdir(parents=True)
    (first / LOGBOOK).write_bytes(START)
    (first / "train.py").write_text("lr = 1\n" * 20)
    (first / "model.py").write_text("width = 1\n")
    git(first, "add", "-A")
    git(first, "commit", "-q", "-m", "start")
    git(first, "push", "-q", "-u", "origin", "main")
    return first


def clone(root: Path, name: str) -> Path:
    git(root, "clone", "-q", str(root / "remote.git"), str(root / name))
    return root / name


def second_place(root: Path) -> Path:
    """Make a copy of the remote."""
    git(root, "clone", "-q", "--bare", "remote.git", "second.git")
    return root / "second.git"


def push_twice(folder: Path) -> None:
    """Let ``origin`` of a clone be pushed to the remote and to its copy."""
    for place in ("remote.git", "second.git"):
        words = ("remote", "set-url", "--add", "--push", "origin")
        git(folder, *words, str(folder.parent / place))


def disturb(folder: Path) -> None:
    """Leave staged, changed, half-staged, removed and untracked files of a person's."""
    (folder / "staged.py").write_text("new = 1\n")
    git(folder, "add", "staged.py")
    (folder / "train.py").write_text("lr = 2\n")
    git(folder, "add", "train.py")
    (folder / "train.py").write_text("lr = 3\n")
    (folder / "model.py").unlink()
    (folder / "notes.txt").write_text("mine\n")


def snapshot(folder: Path) -> dict[str, object]:
    """Everything but the logbook: the index's entries, the status, the files' bytes."""
    staged = [line for line in git(folder, "ls-files", "-s").splitlines() if LOGBOOK not in line]
    status = git(folder, "status", "--porcelain", "-uall").splitlines()
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and path != folder / LOGBOOK
    }
    return {"index": staged, "status": status, "files": files}


def hook(repository: Path, name: str, script: str) -> None:
    """Install a hook; ``repository`` is a git directory."""
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def entry(title: str, *lines: str) -> bytes:
    body = "".join(f"- {line}\n" for line in ("Status: RUNNING", *lines, "Next: look again"))
    return f"\n### 2026-03-11 08:55 UTC - {title}\n{body}".encode()


def adding(block: bytes) -> Callable[[bytes], bytes]:
    """An edit that appends ``block`` unless it is there."""
    return lambda data: data if block in data else data + block


def remote_logbook(root: Path) -> bytes:
    done = subprocess.run(
        ["git", "show", f"main:{LOGBOOK}"], cwd=root / "remote.git", capture_output=True, check=True
    )
    return done.stdout


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
