"""The failures that a run has been relaunched after: the same one twice is no accident (C-14)."""

from __future__ import annotations

from cockpit.model.history import FormerFailure
from cockpit.store.store import Store, pack, unpack

KEEP = 100


class Failures:
    """Recorded failures; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, run: str, failure: FormerFailure) -> None:
        """Record how a job of the run failed; one that is recorded already stays as it is."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO failures VALUES (?, ?, ?, ?)",
                (run, failure.job_id, failure.at, pack(failure)),
            )
            connection.execute(
                "DELETE FROM failures WHERE run = ? AND job_id IN (SELECT job_id FROM failures"
                " WHERE run = ? ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (run, run, KEEP),
            )

    def of(self, run: str) -> tuple[FormerFailure, ...]:
        """Return what is recorded of a run, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT document FROM failures WHERE run = ? ORDER BY at", (run,)
            ).fetchall()
        found = (unpack(FormerFailure, str(row[0])) for row in rows)
        return tuple(failure for failure in found if failure is not None)
