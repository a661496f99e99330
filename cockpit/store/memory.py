"""What is remembered of a run besides its alerts: reports, observations, marks, launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from cockpit.model.base import Frozen, Instant, Number
from cockpit.model.history import CheckpointMark, PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.report import Verdict
from cockpit.store.last_reports import ReportMemory

DAY = 86400.0
KEEP_OBSERVATIONS = 90 * DAY
KEEP_CLOSED = 90 * DAY
KEEP_MARKS = 500


class Observation(Frozen):
    """One cadence of one run, small enough to keep for months."""

    at: Instant
    verdict: Verdict
    phase: Phase | None = None
    step: int | None = None
    loss: Number | None = None


class LaunchedJob(Frozen):
    """A job that was started for a run, or adopted (then it has no launch id).

    ``file_id`` is the ``job.id`` that the run file had then, empty for none; ``None``: not known.
    """

    at: Instant
    job_id: str
    launch_id: str | None = None
    file_id: str | None = None


class RunMemory(ReportMemory):
    """The history of runs."""

    def observe(self, run: str, observation: Observation, every: float) -> bool:
        """Add an observation unless another cockpit made one within half of ``every`` seconds."""
        with self._store.writing() as connection:
            newest = connection.execute(
                "SELECT max(at) FROM observations WHERE run = ? AND at <= ?", (run, observation.at)
            ).fetchone()[0]
            if newest is not None and observation.at - newest < every / 2:
                return False
            phase = observation.phase.value if observation.phase else None
            # SQLite would turn NaN into NULL, and a NaN loss is not unknown
            loss = observation.loss
            loss_kept = "nan" if loss is not None and math.isnan(loss) else loss
            seen = (observation.at, observation.verdict.value, phase, observation.step, loss_kept)
            connection.execute("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?)", (run, *seen))
            return True

    def observations(self, run: str, since: float = 0.0) -> tuple[Observation, ...]:
        """Return what was seen, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT at, verdict, phase, step, loss FROM observations"
                " WHERE run = ? AND at >= ? ORDER BY at",
                (run, since),
            ).fetchall()
        return tuple(
            Observation(at=at, verdict=verdict, phase=phase, step=step, loss=loss)
            for at, verdict, phase, step, loss in rows
        )

    def observed_at(self, run: str, moment: float) -> Observation | None:
        """Return what was seen last by ``moment``."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT at, verdict, phase, step, loss FROM observations"
                " WHERE run = ? AND at <= ? ORDER BY at DESC LIMIT 1",
                (run, moment),
            ).fetchone()
        if row is None:
            return None
        at, verdict, phase, step, loss = row
        return Observation(at=at, verdict=verdict, phase=phase, step=step, loss=loss)

    def watched_since(self, run: str) -> float | None:
        """Return when any cockpit first saw the run, as far back as is kept; ``None``: never."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT min(at) FROM observations WHERE run = ?", (run,)
            ).fetchone()
        return None if row is None or row[0] is None else float(row[0])

    def add_phases(self, run: str, marks: Sequence[PhaseMark]) -> None:
        """Add phase marks; one that is known already stays as it is."""
        with self._store.writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO phases (run, at, phase, job_id, since)"
                " VALUES (?, ?, ?, ?, ?)",
                [(run, mark.at, mark.phase.value, mark.job_id, mark.since) for mark in marks],
            )

    def phases(self, run: str) -> tuple[PhaseMark, ...]:
        """Return the newest phase marks, oldest first; what several cockpits saw stands once."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT at, phase, job_id, since FROM phases WHERE run = ?"
                " ORDER BY at DESC LIMIT ?",
                (run, KEEP_MARKS),
            ).fetchall()
        marks = [
            PhaseMark(at=at, phase=phase, job_id=job_id, since=since)
            for at, phase, job_id, since in reversed(rows)
        ]
        same = attrgetter("phase", "job_id", "since")
        return tuple(next(each) for _, each in groupby(marks, same))

    def add_checkpoint_marks(self, run: str, marks: Sequence[CheckpointMark]) -> None:
        """Add checkpoint marks; one that is known already stays as it is."""
        with self._store.writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO checkpoint_marks VALUES (?, ?, ?, ?)",
                [(run, mark.at, mark.complete, mark.newest) for mark in marks],
            )

    def checkpoint_marks(self, run: str) -> tuple[CheckpointMark, ...]:
        """Return the newest checkpoint marks, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT at, complete, newest FROM checkpoint_marks WHERE run = ?"
                " ORDER BY at DESC LIMIT ?",
                (run, KEEP_MARKS),
            ).fetchall()
        marks = [CheckpointMark(at=at, complete=count, newest=newest) for at, count, newest in rows]
        return tuple(reversed(marks))

    def add_launch(self, run: str, launch: LaunchedJob) -> None:
        """Record a job that was started for the run, or adopted."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO launches VALUES (?, ?, ?, ?)",
                (run, launch.at, launch.job_id, launch.launch_id),
            )
            if launch.file_id is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO launch_files VALUES (?, ?, ?)",
                    (run, launch.at, launch.file_id),
                )

    def launches(self, run: str) -> tuple[LaunchedJob, ...]:
        """Return every job that was started for the run or adopted, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT at, job_id, launch_id, file_id FROM launches"
                " LEFT JOIN launch_files USING (run, at) WHERE run = ? ORDER BY at",
                (run,),
            ).fetchall()
        return tuple(
            LaunchedJob(at=at, job_id=job_id, launch_id=name, file_id=file_id)
            for at, job_id, name, file_id in rows
        )

    def last_launch(self, run: str) -> LaunchedJob | None:
        """Return the last launched instance (INTERFACE, "The current job")."""
        return next(reversed(self.launches(run)), None)

    def prune(self, now: float) -> None:
        """Forget what is too old, so that the file stays bounded."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM observations WHERE at < ?", (now - KEEP_OBSERVATIONS,))
            connection.execute("DELETE FROM alerts WHERE closed_at < ?", (now - KEEP_CLOSED,))
            for table in ("phases", "checkpoint_marks"):
                connection.execute(
                    f"DELETE FROM {table} WHERE (run, at) IN (SELECT run, at FROM (SELECT run, at,"
                    f" row_number() OVER (PARTITION BY run ORDER BY at DESC) AS place FROM {table})"
                    " WHERE place > ?)",
                    (KEEP_MARKS,),
                )
