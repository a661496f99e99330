"""The last report of each run: all that a window needs to begin with; imports no more than that."""

from __future__ import annotations

from collections.abc import Iterable

from cockpit.model.report import RunReport
from cockpit.store.store import StoreView, pack, unpack


class ReportMemory(StoreView):
    """What was known of each run the last time."""

    def save_reports(self, reports: Iterable[tuple[str, RunReport]]) -> None:
        """Keep each run's last report, so that the next start shows the last known state."""
        rows = [(run, report.checked_at, pack(report)) for run, report in reports]
        with self._store.writing() as connection:
            connection.executemany(
                "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE"
                " SET at = excluded.at, document = excluded.document WHERE excluded.at >= at",
                rows,
            )

    def report(self, run: str) -> RunReport | None:
        """Return the last report that any cockpit made of this run."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT document FROM reports WHERE run = ?", (run,)
            ).fetchone()
        return None if row is None else unpack(RunReport, row[0])
