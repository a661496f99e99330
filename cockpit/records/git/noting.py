"""Writes down, beside a repository, what the cockpit wrote into it: see ``own_commits``."""

from __future__ import annotations

import os
from pathlib import Path

from cockpit.platforms.local.launcher.modes import follow
from cockpit.sources.git.code import COMMIT, FILE, LIST, digest


def note_commit(common: Path, oid: str) -> None:
    """Remember that the cockpit made a commit; blocking, raises ``OSError``."""
    _append(common, f"{COMMIT} {oid}")


def note_file(common: Path, former: bytes, after: bytes) -> None:
    """Remember that the cockpit wrote ``after`` over ``former``; blocking, raises ``OSError``."""
    _append(common, f"{FILE} {digest(former)} {digest(after)}")


def _append(common: Path, line: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(common / LIST, flags, 0o666)
    try:
        follow(handle, common)
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
