"""Which jobs our own actions have ordered to stop, and who did (SPEC J, C-01)."""

from __future__ import annotations

import json

from cockpit.model.base import Frozen, Instant
from cockpit.store.store import Store

NEWEST = 10


class Stopped(Frozen):
    """A stop that one of our own actions ordered: of which jobs, by whom, when."""

    job_ids: tuple[str, ...]
    by: str
    at: Instant


class Stops:
    """Reads the journal's stops, and nothing else of it; raises ``StoreError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, run: str) -> tuple[Stopped, ...]:
        """Return the newest stops of a run (a ``run_key``), newest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT operator, begun_at, facts FROM actions WHERE run = ? AND EXISTS"
                " (SELECT 1 FROM action_steps s WHERE s.action = number AND s.name = 'stop'"
                " AND s.state != 'skipped') ORDER BY number DESC LIMIT ?",
                (run, NEWEST),
            ).fetchall()
        return tuple(Stopped(job_ids=_ids(str(facts)), by=who, at=at) for who, at, facts in rows)

    def acted(self) -> tuple[int, float]:
        """Return figures that change whenever a step of any action is written."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT count(*), total(at) FROM action_steps").fetchone()
        return int(row[0]), float(row[1])


def _ids(facts: str) -> tuple[str, ...]:
    told = json.loads(facts).get("stops", "")
    return tuple(each for each in str(told).split("\n") if each)
