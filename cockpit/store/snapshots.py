"""What each launch really used: command, code, config, checkpoint, hardware (SPEC C-18)."""

from __future__ import annotations

from cockpit.model.jobs import Bundle
from cockpit.model.jobs import Snapshot as Snapshot
from cockpit.store.store import StoreView, pack, unpack

KEEP = 200
"""Snapshots kept of one run."""


class Snapshots(StoreView):
    """Snapshots by launch id."""

    def add(self, run: str, snapshot: Snapshot) -> None:
        """Keep what a launch used."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
                (run, snapshot.launch_id, snapshot.at, pack(snapshot)),
            )
            connection.execute(
                "DELETE FROM snapshots WHERE run = ? AND launch_id IN (SELECT launch_id FROM"
                " snapshots WHERE run = ? ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (run, run, KEEP),
            )

    def bundled(self, run: str, launch_id: str, bundle: Bundle) -> None:
        """Note the code that a launch's job runs, where that launch is known."""
        with self._store.writing():
            known = self.of(run, launch_id)
            if known is not None and known.bundle != bundle:
                self.add(run, known.model_copy(update={"bundle": bundle}))

    def last(self, run: str) -> Snapshot | None:
        """Return what the newest launch used."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT document FROM snapshots WHERE run = ? ORDER BY at DESC LIMIT 1", (run,)
            ).fetchone()
        return None if row is None else unpack(Snapshot, str(row[0]))

    def of(self, run: str, launch_id: str) -> Snapshot | None:
        """Return what one launch used."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT document FROM snapshots WHERE run = ? AND launch_id = ?", (run, launch_id)
            ).fetchone()
        return None if row is None else unpack(Snapshot, str(row[0]))
