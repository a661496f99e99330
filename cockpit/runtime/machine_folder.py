"""The one folder of this user on this machine: sockets and locks that no other machine may share.

A home is often the same on every machine, what lies there is not this machine's alone. So it is
below ``$XDG_RUNTIME_DIR`` (``/run/user/UID`` where the variable is missing, as under cron), else in
``/tmp``; named by user and machine, for even those may be shared. Whoever logs out of their last
session may lose what lies under ``/run/user``: what must be found there is made again.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_MACHINE: Final = Path("/etc/machine-id")
_SESSIONS: Final = Path("/run/user")
_SCRATCH: Final = Path("/tmp")
OTHERS: Final = 0o077


class MachineFolderError(Exception):
    """There is no folder that only this user can enter; one line says which, why and what to do."""


def machine_folder() -> Path:
    """Return this user's own folder on this machine, mode 0700, made if need be.

    The path is kept short (a Unix socket's takes 107 bytes on Linux). Raises
    ``MachineFolderError`` if it is another user's, or others may enter it.
    """
    session = _session_folder()
    if session is not None:
        return private_folder(session / f"cockpit-{machine_tag()}")
    return scratch_folder()


def scratch_folder() -> Path:
    """Return this user's own folder in ``/tmp``, whose path is short."""
    return private_folder(_SCRATCH / f"cockpit-{os.geteuid()}-{machine_tag()}")


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
    why = _why_not(found, refused)
    if why is not None:
        raise MachineFolderError(f"{path} {why}; move it away")
    return path


def _why_not(found: os.stat_result, refused: int) -> str | None:
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.geteuid():
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & refused:
        mode = stat.S_IMODE(found.st_mode)
        return f"is open to others (mode {mode:04o}, expected 0700)"
    return None


def _session_folder() -> Path | None:
    """Return the session's folder if it is one that only this user can write to."""
    told = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(told) if told.startswith("/") else _SESSIONS / str(os.geteuid())
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return folder if _why_not(found, 0o022) is None and os.access(folder, os.W_OK) else None
