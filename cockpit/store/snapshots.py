"""What each launch really used: command, code, config, checkpoint, hardware (SPEC C-18)."""

from __future__ import annotations

from cockpit.model.base import Frozen, Instant
from cockpit.model.jobs import Bundle
from cockpit.model.observed import Pick
from cockpit.store.store import StoreView, pack, unpack

KEEP = 200
"""Snapshots kept of one run."""


class Snapshot(Frozen):
    """One launch. ``command`` and ``config`` hold no secret; ``config`` has dotted keys.

    ``template`` is the command with its placeholders as the run file had them, ``resubmit`` the
    one that it had for going on, where that was another. ``config`` is
    ``None`` where none is known; ``config_sha256`` is the digest of the values as they are
    here, so that anyone can make it again.
    """

    launch_id: str
    at: Instant
    action: str
    command: tuple[str, ...]
    template: tuple[str, ...] = ()
    resubmit: tuple[str, ...] = ()
    sha: str | None = None
    branch: str | None = None
    patch_id: str | None = None
    dirty: tuple[str, ...] = ()
    config: dict[str, str] | None = None
    config_source: str | None = None
    config_sha256: str | None = None
    checkpoint: Pick | None = None
    hardware: str | None = None
    output_root: str | None = None
    wandb_id: str | None = None
    wandb_project: str | None = None
    bundle: Bundle | None = None
    """The code that went with the job, by its platform's word, once that is known."""


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
