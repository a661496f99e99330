"""Opens the store, also where even that may not come back: a home whose server is away.

What a start needs of it besides: the last reports; and for ``doctor``, how it is kept.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cockpit.model.report import RunReport
from cockpit.model.wording import moment
from cockpit.runtime.mounts import file_system
from cockpit.store.store import (
    LOST,
    NO_HISTORY,
    OLD_NAME,
    Store,
    StoreError,
    StoreView,
    pack,
)

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


class ReportMemory(StoreView):
    """What was known of each run the last time."""

    def save_reports(self, reports: Iterable[tuple[str, RunReport]]) -> None:
        """Keep each run's last report, so that the next start shows the last known state."""
        rows = [(run, report.checked_at, pack(report)) for run, report in reports]
        self._change_all(
            "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE"
            " SET at = excluded.at, document = excluded.document WHERE excluded.at >= at",
            rows,
        )

    def report(self, run: str) -> RunReport | None:
        """Return the last report that any cockpit made of this run."""
        return self._document(RunReport, "SELECT document FROM reports WHERE run = ?", run)


def described(path: Path) -> str:
    """Open the store for writing and return how it is kept; raises ``StoreError``."""
    from cockpit.store.old_store import taken_by

    store = open_within(path)
    try:
        with store.writing() as connection:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            lost = connection.execute("SELECT max(at) FROM begun_anew").fetchone()[0]
            if lost is not None:
                return f"{path} can be written, but {loss_text(lost)}"
            owner = taken_by(path)
            former = "" if owner in (None, path.name) else f"; {OLD_NAME} was taken into {owner}"
            kept = file_system(path.absolute().parent).text
            return f"{path} can be written: {kept}; journal {mode}{former}"
    finally:
        store.close()


def loss_text(at: float) -> str:
    """Return what it means that this machine's store was deleted."""
    return f"it was deleted and begun anew at {moment(at)}: {LOST}"
