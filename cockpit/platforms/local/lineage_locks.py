"""Which files are locked while a job of a lineage lives on this machine (SPEC A, at most once)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cockpit.platforms.local.launcher.locks import JOB_LOCK, LockError
from cockpit.runtime.machine_folder import MachineFolderError, private_folder

WRITABLE: Final = 0o022


def locks_folder() -> Path:
    """Return where this user's locks lie on this machine.

    Not ``machine_folder()``: no setting moves it (a cockpit started by cron has other variables
    than one in a terminal), since two that lock different files do not exclude each other; and a
    container that is given this machine's ``/tmp`` is excluded too, whatever it calls itself.
    """
    return Path("/tmp") / f"cockpit-locks-{os.getuid()}"


def lock_files(output_root: Path | None, keys: Iterable[str], folder: Path) -> tuple[Path, ...]:
    """Return the lock files of a lineage: one under its local output root, one for each key.

    Makes ``folder``, private to this user. Raises ``LockError`` if it is not.
    """
    try:
        private_folder(folder, refused=WRITABLE)
    except MachineFolderError as error:
        raise LockError(f"no locks: {error}") from error
    named = [folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lock" for key in keys]
    return tuple([*([] if output_root is None else [output_root / JOB_LOCK]), *named])
