"""Which runs were sealed from this machine (SPEC A-7): for those that have no code repository."""

from __future__ import annotations

from cockpit.store.store import Store


class Seals:
    """Reads the journal for seals; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last(self, run: str) -> str | None:
        """Return who sealed the run as it stands; ``None`` too when it was launched since."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT operator FROM actions WHERE run = ? AND action = 'seal'"
                " AND outcome = 'done' AND begun_at > coalesce("
                "(SELECT max(at) FROM launches WHERE launches.run = actions.run), 0)"
                " ORDER BY begun_at DESC LIMIT 1",
                (run,),
            ).fetchone()
        return None if row is None else str(row[0])
