"""Which checkpoints of a run were rejected, as this machine remembers it (SPEC A-4).

The logbook is the truth that other machines read; here it is known before the logbook is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from cockpit.model.records import Rejected
from cockpit.store.store import Store


class Rejections:
    """Reads and writes rejections; ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, run: str, rejected: Iterable[Rejected]) -> None:
        """Remember these; of two of one path the later stays, since it covers the earlier."""
        rows = [(run, one.path, one.step, one.at, one.by, one.reason) for one in rejected]
        with self._store.writing() as connection:
            connection.executemany(
                "INSERT INTO rejections (run, path, step, at, who, reason)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, path) DO UPDATE SET"
                " step = excluded.step, at = excluded.at, who = excluded.who,"
                " reason = excluded.reason WHERE excluded.at > at",
                rows,
            )

    def of(self, run: str) -> tuple[Rejected, ...]:
        """Return all of a run, by step."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT step, path, at, who, reason FROM rejections WHERE run = ?"
                " ORDER BY step, path",
                (run,),
            ).fetchall()
        return tuple(
            Rejected(step=step, path=path, at=at, by=by, reason=reason)
            for step, path, at, by, reason in rows
        )
