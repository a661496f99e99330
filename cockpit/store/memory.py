"""What is remembered of a run: facts that rules need, past moments, settings, launch snapshots."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from cockpit.model.base import Frozen, Instant, Number
from cockpit.model.history import CheckpointMark, Moment, PhaseMark, Settings
from cockpit.model.jobs import Bundle
from cockpit.model.jobs import Snapshot as Snapshot
from cockpit.model.observed import Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.store.store import ReportMemory, StoreView, pack, unpack

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
        before = "SELECT max(at) FROM observations WHERE run = ? AND at <= ?"
        with self._store.writing():
            newest = self._first(before, run, observation.at)[0]
            if newest is not None and observation.at - newest < every / 2:
                return False
            phase = observation.phase.value if observation.phase else None
            # SQLite would turn NaN into NULL, and a NaN loss is not unknown
            loss = observation.loss
            self._insert(
                "INTO observations", run=run, at=observation.at, phase=phase,
                verdict=observation.verdict.value, step=observation.step,
                loss="nan" if loss is not None and math.isnan(loss) else loss,
            )  # fmt: skip
            return True

    def observations(self, run: str, since: float = 0.0) -> tuple[Observation, ...]:
        """Return what was seen, oldest first."""
        return self._seen("run = ? AND at >= ? ORDER BY at", run, since)

    def observed_at(self, run: str, moment: float) -> Observation | None:
        """Return what was seen last by ``moment``."""
        where = "run = ? AND at <= ? ORDER BY at DESC LIMIT 1"
        return next(iter(self._seen(where, run, moment)), None)

    def _seen(self, where: str, *values: object) -> tuple[Observation, ...]:
        query = "SELECT at, verdict, phase, step, loss FROM observations WHERE"
        return self._values(Observation, f"{query} {where}", *values)

    def watched_since(self, run: str) -> float | None:
        """Return when any cockpit first saw the run, as far back as is kept; ``None``: never."""
        first = self._first("SELECT min(at) FROM observations WHERE run = ?", run)[0]
        return None if first is None else float(first)

    def add_phases(self, run: str, marks: Sequence[PhaseMark]) -> None:
        """Add phase marks; one that is known already stays as it is."""
        self._change_all(
            "INSERT OR IGNORE INTO phases (run, at, phase, job_id, since, accelerators)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [
                (run, each.at, each.phase.value, each.job_id, each.since, each.accelerators)
                for each in marks
            ],
        )

    def phases(self, run: str) -> tuple[PhaseMark, ...]:
        """Return the newest phase marks, oldest first; what several cockpits saw stands once."""
        query = "SELECT at, phase, job_id, since, accelerators FROM phases WHERE run = ?"
        marks = self._values(PhaseMark, f"{query} ORDER BY at DESC LIMIT ?", run, KEEP_MARKS)
        same = attrgetter("phase", "job_id", "since")
        return tuple(next(each) for _, each in groupby(reversed(marks), same))

    def add_checkpoint_marks(self, run: str, marks: Sequence[CheckpointMark]) -> None:
        """Add checkpoint marks; one that is known already stays as it is."""
        self._change_all(
            "INSERT OR IGNORE INTO checkpoint_marks VALUES (?, ?, ?, ?)",
            [(run, mark.at, mark.complete, mark.newest) for mark in marks],
        )

    def checkpoint_marks(self, run: str) -> tuple[CheckpointMark, ...]:
        """Return the newest checkpoint marks, oldest first."""
        query = "SELECT at, complete, newest FROM checkpoint_marks WHERE run = ?"
        marks = self._values(CheckpointMark, f"{query} ORDER BY at DESC LIMIT ?", run, KEEP_MARKS)
        return tuple(reversed(marks))

    def add_launch(self, run: str, launch: LaunchedJob) -> None:
        """Record a job that was started for the run, or adopted."""
        row = {"run": run, **launch.model_dump(exclude={"file_id"})}
        with self._store.writing():
            self._insert("OR REPLACE INTO launches", **row)
            if launch.file_id is not None:
                named = {"run": run, "at": launch.at, "file_id": launch.file_id}
                self._insert("OR REPLACE INTO launch_files", **named)

    def launches(self, run: str) -> tuple[LaunchedJob, ...]:
        """Return every job that was started for the run or adopted, oldest first."""
        query = (
            "SELECT at, job_id, launch_id, file_id FROM launches"
            " LEFT JOIN launch_files USING (run, at) WHERE run = ? ORDER BY at"
        )
        return self._values(LaunchedJob, query, run)

    def prune(self, now: float) -> None:
        """Forget what is too old, so that the file stays bounded."""
        with self._store.writing():
            self._change("DELETE FROM observations WHERE at < ?", now - KEEP_OBSERVATIONS)
            self._change("DELETE FROM alerts WHERE closed_at < ?", now - KEEP_CLOSED)
            for table in ("phases", "checkpoint_marks"):
                self._change(
                    f"DELETE FROM {table} WHERE (run, at) IN (SELECT run, at FROM (SELECT run, at,"
                    f" row_number() OVER (PARTITION BY run ORDER BY at DESC) AS place FROM {table})"
                    " WHERE place > ?)",
                    KEEP_MARKS,
                )


HOUR: Final = 3600.0
PAST_DAY: Final = 24 * HOUR
LEAST_EVERY: Final = 15.0
"""Seconds between two moments at least in which nothing has changed, however short the cadence."""
WHOLE_FOR: Final = 2 * PAST_DAY
"""Seconds for which a moment of every cadence is kept; then one of every hour."""
KEEP_FOR: Final = 90 * PAST_DAY
MOST_OF_RUN: Final = 8 << 20
"""Bytes of one run's past; beyond it the oldest moments go."""
MOST_OF_ALL: Final = 512 << 20
"""Bytes of all runs' pasts."""
BASE_FOR: Final = PAST_DAY
"""Seconds for which a moment serves as the base of others."""
GREW: Final = 2
"""A moment that takes more than this part (1/n) of its base's bytes is a base of its own."""
MOST_MOMENTS: Final = 5_000
LARGEST: Final = 4 << 20
"""Bytes of one moment at most when it is unpacked: what says more was damaged."""


class Kept(NamedTuple):
    """A moment of the past; ``report`` is ``None`` if another version wrote it, or it is torn."""

    at: float
    report: RunReport | None


class Pasts(StoreView):
    """The moments of runs."""

    def keep(self, run: str, report: RunReport, face: str, every: float) -> bool:
        """Keep a report if its ``face`` is not the last one's, or ``every`` (s) has passed.

        ``every`` counts from half on, as rounds do not come to the second. Return whether it was
        kept: of several cockpits that look at a run one keeps the moment.
        """
        at = report.checked_at
        query = "SELECT at, face FROM pasts WHERE run = ? AND at <= ? ORDER BY at DESC LIMIT 1"
        with self._store.writing():
            last = self._first(query, run, at)
            changed = last is None or last[1] != face
            if last is not None and at == last[0]:
                return False
            if not changed and at - last[0] < max(every, LEAST_EVERY) / 2:
                return False
            base, document = self._packed(run, at, pack(report).encode())
            self._insert(
                "INTO pasts", run=run, at=at, changed=changed, verdict=report.verdict.value,
                face=face, base=base, document=document,
            )  # fmt: skip
            return True

    def moments(self, run: str) -> tuple[Moment, ...]:
        """Return the newest moments that are kept, oldest first."""
        query = "SELECT at, verdict, changed FROM pasts WHERE run = ? ORDER BY at DESC LIMIT ?"
        rows = self._all(query, run, MOST_MOMENTS)
        return tuple(
            Moment(at, Verdict(verdict), bool(changed)) for at, verdict, changed in reversed(rows)
        )

    def at(self, run: str, moment: float) -> Kept | None:
        """Return the newest moment that is not after ``moment``."""
        query = "SELECT at, base, document FROM pasts WHERE run = ? AND at <= ?"
        with self._store.reading():
            row = self._first(f"{query} ORDER BY at DESC LIMIT 1", run, moment)
            if row is None:
                return None
            text = self._unpacked(run, row[1], row[2])
        return Kept(row[0], None if text is None else unpack(RunReport, text))

    def prune(self, now: float) -> None:
        """Thin out what is older than two days; forget what is too old or too much."""
        with self._store.writing():
            self._change("DELETE FROM pasts WHERE at < ?", now - KEEP_FOR)
            self._change(
                "DELETE FROM pasts WHERE at < ? AND NOT changed AND base IS NOT NULL"
                " AND rowid NOT IN (SELECT rowid FROM (SELECT rowid, row_number() OVER (PARTITION"
                " BY run, CAST(at / 3600 AS INTEGER) ORDER BY at) AS place FROM pasts"
                " WHERE at < ?) WHERE place = 1)",
                now - WHOLE_FOR, now - WHOLE_FOR,
            )  # fmt: skip
            for partition, most in (("PARTITION BY run", MOST_OF_RUN), ("", MOST_OF_ALL)):
                self._change(
                    "DELETE FROM pasts WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"
                    f" sum(length(document)) OVER ({partition} ORDER BY at DESC) AS bytes"
                    " FROM pasts) WHERE bytes > ?)",
                    most,
                )
            self._change(
                "DELETE FROM pasts WHERE base IS NOT NULL AND NOT EXISTS"
                " (SELECT 1 FROM pasts AS b WHERE b.run = pasts.run AND b.at = pasts.base)"
            )

    def _packed(self, run: str, at: float, document: bytes) -> tuple[float | None, bytes]:
        """Return the base that a moment differs little from, if there is one, and what differs."""
        found = self._first(
            "SELECT at, document FROM pasts WHERE run = ? AND base IS NULL AND at >= ? AND at < ?"
            " ORDER BY at DESC LIMIT 1",
            run, at - BASE_FOR, at,
        )  # fmt: skip
        former = None if found is None else _inflated(found[1], b"")
        if former is not None:
            differing = _deflated(document, former)
            if len(differing) * GREW <= len(found[1]):
                return float(found[0]), differing
        return None, _deflated(document, b"")

    def _unpacked(self, run: str, base: float | None, document: bytes) -> str | None:
        former: bytes | None = b""
        if base is not None:
            query = "SELECT document FROM pasts WHERE run = ? AND at = ?"
            found = self._first(query, run, base)
            former = None if found is None else _inflated(found[0], b"")
        text = None if former is None else _inflated(document, former)
        return None if text is None else text.decode("utf-8", "replace")


def _deflated(document: bytes, former: bytes) -> bytes:
    making = zlib.compressobj(6, zdict=former) if former else zlib.compressobj(6)
    return making.compress(document) + making.flush()


def _inflated(document: bytes, former: bytes) -> bytes | None:
    reading = zlib.decompressobj(zdict=former) if former else zlib.decompressobj()
    try:
        text = reading.decompress(document, LARGEST)
    except (zlib.error, TypeError):
        return None
    return text if reading.eof else None


class Configs(NamedTuple):
    """What was known last: of the job that was the present one then, and of the one before it."""

    present: Settings | None = None
    former: Settings | None = None


class SettingsKept(StoreView):
    """One row for each run: ``run`` is a ``run_key``; every method raises ``StoreError``."""

    def save(self, run: str, at: float, configs: Configs) -> None:
        """Keep what is known at ``at``, unless another cockpit knew more later."""
        texts = [None if each is None else pack(each) for each in configs]
        self._change(
            "INSERT INTO settings VALUES (?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET"
            " at = excluded.at, present = excluded.present, former = excluded.former"
            " WHERE excluded.at >= at",
            run, at, *texts,
        )  # fmt: skip

    def of(self, run: str) -> Configs:
        """Return what any cockpit knew last of a run."""
        texts = (
            self._first("SELECT present, former FROM settings WHERE run = ?", run) or (None,) * 2
        )
        return Configs(*(None if text is None else unpack(Settings, str(text)) for text in texts))


KEEP = 200
"""Snapshots kept of one run."""


class Snapshots(StoreView):
    """Snapshots by launch id."""

    def add(self, run: str, snapshot: Snapshot) -> None:
        """Keep what a launch used."""
        own = {"run": run, "launch_id": snapshot.launch_id, "at": snapshot.at}
        with self._store.writing():
            self._insert("OR REPLACE INTO snapshots", **own, document=pack(snapshot))
            self._change(
                "DELETE FROM snapshots WHERE run = ? AND launch_id IN (SELECT launch_id FROM"
                " snapshots WHERE run = ? ORDER BY at DESC LIMIT -1 OFFSET ?)",
                run, run, KEEP,
            )  # fmt: skip

    def bundled(self, run: str, launch_id: str, bundle: Bundle) -> None:
        """Note the code that a launch's job runs, where that launch is known."""
        with self._store.writing():
            known = self.of(run, launch_id)
            if known is not None and known.bundle != bundle:
                self.add(run, known.model_copy(update={"bundle": bundle}))

    def last(self, run: str) -> Snapshot | None:
        """Return what the newest launch used."""
        query = "SELECT document FROM snapshots WHERE run = ? ORDER BY at DESC LIMIT 1"
        return self._document(Snapshot, query, run)

    def of(self, run: str, launch_id: str) -> Snapshot | None:
        """Return what one launch used."""
        query = "SELECT document FROM snapshots WHERE run = ? AND launch_id = ?"
        return self._document(Snapshot, query, run, launch_id)
