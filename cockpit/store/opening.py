"""Opening the store where even that may not come back, as on a home whose server is away."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Final

from cockpit.store.store import NO_HISTORY, Store, StoreError

OTHERS_WRITE: Final = 0o022
OPEN_WITHIN: Final = 9.0
"""Seconds: longer than a store waits for whoever has locked it."""


class Opening:
    """A store that is being opened, from now on, in a thread of its own."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._opened: list[Store] = []
        self._trouble: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._work, args=(read_only,), name="opens the store", daemon=True
        )
        self._thread.start()

    def store(self, seconds: float = OPEN_WITHIN) -> Store:
        """Return it; raises ``StoreError``, also without an answer in ``seconds`` from now."""
        self._thread.join(seconds)
        if self._trouble:
            raise self._trouble[0]
        if not self._opened:
            raise StoreError(f"{self._path}: no answer within {seconds:g} s; {NO_HISTORY}")
        return self._opened[0]

    def _work(self, read_only: bool) -> None:
        try:
            self._opened.append(Store(self._path, read_only=read_only))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._trouble.append(error)


def close_to_others(path: Path) -> str | None:
    """Take from others the right to write into the store's folder; say so if they had it.

    Only a folder of ours is changed; of another account's it is said alone.
    """
    folder = path.parent
    try:
        found = folder.stat()
        if not found.st_mode & OTHERS_WRITE:
            return None
        said = f"{folder} could be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
        if found.st_uid != os.geteuid():
            return f"{said} and belongs to another account (uid {found.st_uid}): move it away"
        folder.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)
    except OSError:
        return None
    return f"{said}; it is closed to them now: check that nobody has changed what lies there"


def open_within(path: Path, *, read_only: bool = False, seconds: float = OPEN_WITHIN) -> Store:
    """Return the open store; raises ``StoreError``, also when there is no answer in time."""
    return Opening(path, read_only=read_only).store(seconds)
