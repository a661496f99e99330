"""The run as it was: whole reports at moments of the past, small enough to keep for months.

Every change of verdict, phase, job or alerts is kept; what else was seen (steps, loss, ages) once
a cadence, after two days once an hour. A moment is kept as what differs from a former one, its
``base``: some hundred bytes. Every method raises ``StoreError``; ``run`` is a ``run_key``.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Final, NamedTuple

from cockpit.model.history import Moment
from cockpit.model.report import RunReport, Verdict
from cockpit.store.store import StoreView, pack, unpack

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
LEAST_EVERY: Final = 15.0
"""Seconds between two moments at least in which nothing has changed, however short the cadence."""
WHOLE_FOR: Final = 2 * DAY
"""Seconds for which a moment of every cadence is kept; then one of every hour."""
KEEP_FOR: Final = 90 * DAY
MOST_OF_RUN: Final = 8 << 20
"""Bytes of one run's past; beyond it the oldest moments go."""
MOST_OF_ALL: Final = 512 << 20
"""Bytes of all runs' pasts."""
BASE_FOR: Final = DAY
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
        with self._store.writing() as connection:
            last = connection.execute(
                "SELECT at, face FROM pasts WHERE run = ? AND at <= ? ORDER BY at DESC LIMIT 1",
                (run, at),
            ).fetchone()
            changed = last is None or last[1] != face
            if last is not None and at == last[0]:
                return False
            if not changed and at - last[0] < max(every, LEAST_EVERY) / 2:
                return False
            base, document = _packed(connection, run, at, pack(report).encode())
            connection.execute(
                "INSERT INTO pasts VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run, at, changed, report.verdict.value, face, base, document),
            )
            return True

    def moments(self, run: str) -> tuple[Moment, ...]:
        """Return the newest moments that are kept, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT at, verdict, changed FROM pasts WHERE run = ? ORDER BY at DESC LIMIT ?",
                (run, MOST_MOMENTS),
            ).fetchall()
        return tuple(
            Moment(at, Verdict(verdict), bool(changed)) for at, verdict, changed in reversed(rows)
        )

    def at(self, run: str, moment: float) -> Kept | None:
        """Return the newest moment that is not after ``moment``."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT at, base, document FROM pasts WHERE run = ? AND at <= ?"
                " ORDER BY at DESC LIMIT 1",
                (run, moment),
            ).fetchone()
            if row is None:
                return None
            text = _unpacked(connection, run, row[1], row[2])
        return Kept(row[0], None if text is None else unpack(RunReport, text))

    def prune(self, now: float) -> None:
        """Thin out what is older than two days; forget what is too old or too much."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM pasts WHERE at < ?", (now - KEEP_FOR,))
            connection.execute(
                "DELETE FROM pasts WHERE at < ? AND NOT changed AND base IS NOT NULL"
                " AND rowid NOT IN (SELECT rowid FROM (SELECT rowid, row_number() OVER (PARTITION"
                " BY run, CAST(at / 3600 AS INTEGER) ORDER BY at) AS place FROM pasts"
                " WHERE at < ?) WHERE place = 1)",
                (now - WHOLE_FOR, now - WHOLE_FOR),
            )
            for partition, most in (("PARTITION BY run", MOST_OF_RUN), ("", MOST_OF_ALL)):
                connection.execute(
                    "DELETE FROM pasts WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"
                    f" sum(length(document)) OVER ({partition} ORDER BY at DESC) AS bytes"
                    " FROM pasts) WHERE bytes > ?)",
                    (most,),
                )
            connection.execute(
                "DELETE FROM pasts WHERE base IS NOT NULL AND NOT EXISTS"
                " (SELECT 1 FROM pasts AS b WHERE b.run = pasts.run AND b.at = pasts.base)"
            )


def _packed(
    connection: sqlite3.Connection, run: str, at: float, document: bytes
) -> tuple[float | None, bytes]:
    """Return the base that a moment differs little from, if there is one, and what differs."""
    found = connection.execute(
        "SELECT at, document FROM pasts WHERE run = ? AND base IS NULL AND at >= ? AND at < ?"
        " ORDER BY at DESC LIMIT 1",
        (run, at - BASE_FOR, at),
    ).fetchone()
    former = None if found is None else _inflated(found[1], b"")
    if former is not None:
        differing = _deflated(document, former)
        if len(differing) * GREW <= len(found[1]):
            return float(found[0]), differing
    return None, _deflated(document, b"")


def _unpacked(
    connection: sqlite3.Connection, run: str, base: float | None, document: bytes
) -> str | None:
    if base is None:
        text = _inflated(document, b"")
    else:
        found = connection.execute(
            "SELECT document FROM pasts WHERE run = ? AND at = ?", (run, base)
        ).fetchone()
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
