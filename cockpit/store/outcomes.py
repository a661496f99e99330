"""How jobs and runs ended, and what was decided about it: five small tables, one class each.

``run`` is a ``run_key``; every method raises ``StoreError``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from cockpit.model.base import Frozen, Instant
from cockpit.model.history import FormerFailure
from cockpit.model.records import Rejected
from cockpit.store.store import StoreView, pack, unpack

STOPS_READ = 10
FAILURES_KEPT = 100
SAME_START = 2.0
"""Seconds by which two tellings of one start may differ."""


class Ended(Frozen):
    """An end that somebody has acknowledged at ``at``: of which job, and of which start of it.

    An id may live twice (a requeue, a fixed name): each of its ends is acknowledged by itself.
    """

    job_id: str
    started_at: Instant | None
    at: Instant

    def covers(self, job_id: str | None, started_at: float | None) -> bool:
        """Tell whether this is the end of that job; one that began after it was seen is another."""
        if self.job_id != (job_id or ""):
            return False
        if started_at is None:
            return True
        if self.started_at is None:
            return started_at <= self.at
        return abs(started_at - self.started_at) <= SAME_START


class Endings(StoreView):
    """Who has taken note that a job of a run is over (SPEC W: terminal *and acknowledged*)."""

    def acknowledge(
        self, run: str, job_id: str | None, started_at: float | None, who: str, at: float
    ) -> None:
        """Record that ``who`` has seen that this job of the run, begun then, is over."""
        row = (run, job_id or "", started_at, who, at)
        with self._store.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO ends VALUES (?, ?, ?, ?, ?)", row)

    def withdraw(self, run: str, job_id: str | None, started_at: float | None) -> None:
        """Take an acknowledgement back: the run is watched on."""
        with self._store.writing() as connection:
            for each in self.acknowledged(run):
                if each.covers(job_id, started_at):
                    connection.execute(
                        "DELETE FROM ends WHERE run = ? AND job_id = ? AND started_at IS ?",
                        (run, each.job_id, each.started_at),
                    )

    def acknowledged(self, run: str) -> tuple[Ended, ...]:
        """Return the ends that somebody has acknowledged."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT job_id, started_at, at FROM ends WHERE run = ? ORDER BY at", (run,)
            ).fetchall()
        return tuple(Ended(job_id=row[0], started_at=row[1], at=row[2]) for row in rows)


class Stopped(Frozen):
    """A stop that one of our own actions ordered: of which jobs, by whom, when."""

    job_ids: tuple[str, ...]
    by: str
    at: Instant


class Stops(StoreView):
    """Which jobs our own actions have ordered to stop, read from the journal (SPEC J, C-01)."""

    def of(self, run: str) -> tuple[Stopped, ...]:
        """Return the newest stops of a run, newest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT operator, begun_at, facts FROM actions WHERE run = ? AND EXISTS"
                " (SELECT 1 FROM action_steps s WHERE s.action = number AND s.state != 'skipped'"
                " AND s.name IN ('stop', 'successors')) ORDER BY number DESC LIMIT ?",
                (run, STOPS_READ),
            ).fetchall()
        stops = ((who, at, str(json.loads(facts).get("stops", ""))) for who, at, facts in rows)
        return tuple(
            Stopped(job_ids=tuple(filter(None, ids.split("\n"))), by=who, at=at)
            for who, at, ids in stops
        )

    def acted(self) -> tuple[int, float]:
        """Return figures that change whenever a step of any action is written."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT count(*), total(at) FROM action_steps").fetchone()
        return int(row[0]), float(row[1])


class Seals(StoreView):
    """Which runs were sealed from this machine (SPEC A-7), read from the journal."""

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


class Failures(StoreView):
    """The failures that a run was relaunched after: the same one twice is no accident (C-14)."""

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
                (run, run, FAILURES_KEPT),
            )

    def of(self, run: str) -> tuple[FormerFailure, ...]:
        """Return what is recorded of a run, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT document FROM failures WHERE run = ? ORDER BY at", (run,)
            ).fetchall()
        found = (unpack(FormerFailure, str(row[0])) for row in rows)
        return tuple(failure for failure in found if failure is not None)


class Rejections(StoreView):
    """Which checkpoints were rejected, as this machine remembers it (SPEC A-4).

    The logbook is the truth that other machines read; here it is known before it is written.
    """

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
