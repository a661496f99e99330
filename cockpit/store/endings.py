"""Who has taken note that a run is over (SPEC W: terminal *and acknowledged*)."""

from __future__ import annotations

from cockpit.store.store import Store


class Endings:
    """Acknowledged ends; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def acknowledge(self, run: str, job_id: str | None, who: str, at: float) -> None:
        """Record that ``who`` has seen that this job of the run is over."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO endings VALUES (?, ?, ?, ?)", (run, job_id or "", who, at)
            )

    def withdraw(self, run: str, job_id: str | None) -> None:
        """Take an acknowledgement back: the run is watched on."""
        with self._store.writing() as connection:
            connection.execute(
                "DELETE FROM endings WHERE run = ? AND job_id = ?", (run, job_id or "")
            )

    def acknowledged(self, run: str) -> frozenset[str]:
        """Return the ids of the jobs whose end somebody has acknowledged."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT job_id FROM endings WHERE run = ?", (run,)).fetchall()
        return frozenset(str(row[0]) for row in rows)
