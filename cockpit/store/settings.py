"""The resolved config of each run's present job and of the one before it (SPEC C-18).

A cockpit that starts after a restart can see only the new config: what it differs from is here.
"""

from __future__ import annotations

from typing import NamedTuple

from cockpit.model.history import Settings
from cockpit.store.store import StoreView, pack, unpack


class Configs(NamedTuple):
    """What was known last: of the job that was the present one then, and of the one before it."""

    present: Settings | None = None
    former: Settings | None = None


class SettingsKept(StoreView):
    """One row for each run: ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def save(self, run: str, at: float, configs: Configs) -> None:
        """Keep what is known at ``at``, unless another cockpit knew more later."""
        texts = [None if each is None else pack(each) for each in configs]
        with self._store.writing() as connection:
            connection.execute(
                "INSERT INTO settings VALUES (?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET"
                " at = excluded.at, present = excluded.present, former = excluded.former"
                " WHERE excluded.at >= at",
                (run, at, *texts),
            )

    def of(self, run: str) -> Configs:
        """Return what any cockpit knew last of a run."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT present, former FROM settings WHERE run = ?", (run,)
            ).fetchone()
        texts = (None, None) if row is None else row
        return Configs(*(None if text is None else unpack(Settings, str(text)) for text in texts))
