"""What somebody has allowed the cockpit to do by itself for a run file, by typed words."""

from __future__ import annotations

from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.store.store import StoreView, run_key

AUTOLOG: Final = "autolog"
"""To write and commit logbook and run log entries that nobody typed."""


class Consent(Frozen):
    """Who has allowed it, and when."""

    who: str
    at: Instant


class Consents(StoreView):
    """One row for each run file and kind; every method raises ``StoreError``."""

    def give(self, run_file: str, what: str, consent: Consent) -> None:
        """Remember that it is allowed."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO consents VALUES (?, ?, ?, ?)",
                (run_key(run_file, ""), what, consent.who, consent.at),
            )

    def withdraw(self, run_file: str, what: str) -> None:
        """Forget that it was allowed."""
        with self._store.writing() as connection:
            connection.execute(
                "DELETE FROM consents WHERE run = ? AND what = ?", (run_key(run_file, ""), what)
            )

    def of(self, run_file: str, what: str) -> Consent | None:
        """Return who has allowed it; ``None`` if nobody has."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT who, at FROM consents WHERE run = ? AND what = ?",
                (run_key(run_file, ""), what),
            ).fetchone()
        return None if row is None else Consent(who=row[0], at=row[1])
