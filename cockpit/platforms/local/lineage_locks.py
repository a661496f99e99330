"""Which files are locked while a job of a lineage lives on this machine (SPEC A, at most once)."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.platforms.local.launcher.locks import JOB_LOCK, LockError, try_open
from cockpit.runtime.account import MachineFolderError, machine_tag, private_folder

WRITABLE: Final = 0o022


def locks_folders() -> tuple[Path, ...]:
    """Return where this user's locks lie on this machine: a job holds them in each.

    Not ``machine_folder()``: no setting moves them (a cockpit started by cron has other variables
    than one in a terminal), since two that lock different files do not exclude each other. A
    container that is given this machine's ``/tmp`` is excluded by the first, whatever it calls
    itself; the second lies at home, where no other account can take the name before us.
    """
    found = [Path("/tmp") / f"cockpit-locks-{os.getuid()}"]
    with suppress(KeyError):
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        found.append(home / ".local" / "state" / "cockpit" / f"locks-{machine_tag()}")
    return tuple(found)


def lock_files(
    output_root: Path | None, keys: Iterable[str], folders: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the lock files of a lineage: one under its local output root, and for each key.

    Makes the folders, private to this user; those for the keys lie in each that is. Raises
    ``LockError`` if none is: then another account has taken the names before us.
    """
    named = [f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lock" for key in keys]
    usable, troubles = [], []
    for folder in folders:
        try:
            usable.append(_private(folder))
        except MachineFolderError as error:
            troubles.append(str(error))
    if not usable:
        raise LockError(f"no locks: {'; '.join(troubles)}")
    root = [] if output_root is None else [output_root / JOB_LOCK]
    return (*root, *(folder / name for folder in usable for name in named))


def _private(folder: Path) -> Path:
    """Return a folder that is private to this user, made if its home is there."""
    home = next((each for each in folder.parents if each.name == ".local"), folder).parent
    if home.is_dir():
        with suppress(OSError):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return private_folder(folder, refused=WRITABLE)


def try_locks(output_root: Path | None, keys: Iterable[str], folders: Sequence[Path]) -> None:
    """See that a launch could open every lock; takes none. Raises ``LockError``."""
    try:
        try_open(lock_files(output_root, keys, folders))
    except OSError as error:
        raise LockError(f"cannot lock {error.filename}: {error.strerror}") from error
