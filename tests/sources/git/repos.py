"""Real git repositories, with a real bare remote."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, *, remote: bool = True) -> Path:
    """One commit on ``main``, pushed to ``<folder>.git`` when ``remote``."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("lr = 1\n" * 20)
    commit(folder, "first")
    if remote:
        bare = folder.with_suffix(".git")
        git(folder, "clone", "-q", "--bare", str(folder), str(bare))
        git(folder, "remote", "add", "origin", str(bare))
        git(folder, "fetch", "-q", "origin")
        git(folder, "branch", "-q", "--set-upstream-to=origin/main")
    return folder


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")
