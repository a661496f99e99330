"""A folder that only this user can enter, and what tells this machine from others.

Standard library only, Python 3.8 and newer: it is sent along with the agent of a host.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_MACHINE = Path("/etc/machine-id")
OTHERS = 0o077


class MachineFolderError(Exception):
    """There is no folder that only this user can enter; one line says which, why and what to do."""


def machine_tag() -> str:
    """Return ten hex digits that tell this machine from others: its name and its own id."""
    own = ""
    with suppress(OSError, ValueError):
        own = _MACHINE.read_text(encoding="ascii").strip()
    return hashlib.sha256(f"{socket.gethostname()}\n{own}".encode()).hexdigest()[:10]


def private_folder(path: Path, refused: int = OTHERS) -> Path:
    """Make ``path`` for this user alone and return it; one that is there is looked at first.

    ``refused`` are the mode bits that it may not have. Raises ``MachineFolderError``.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except FileExistsError:
        raise MachineFolderError(f"{path} is not a folder; move it away") from None
    except OSError as error:
        raise MachineFolderError(f"cannot make {path}: {error.strerror}") from error
    why = why_not_private(found, refused)
    if why is not None:
        raise MachineFolderError(f"{path} {why}; move it away")
    return path


def why_not_private(found: os.stat_result, refused: int) -> str | None:
    """Return what else a folder is than one of this user's, open to no one else."""
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.geteuid():
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & refused:
        mode = stat.S_IMODE(found.st_mode)
        return f"is open to others (mode {mode:04o}, expected 0700)"
    return None
