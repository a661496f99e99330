"""What waits to be posted to an issue: one row for an event, claimed by one process at a time.

A row is written before anything is sent and stays when it was sent, so that an event is never
posted twice. Every method raises ``StoreError``; ``run`` is a ``run_key``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.store.store import StoreView, pack, unpack

CLAIMED_FOR: Final = 120.0
"""Seconds after which a claim counts as left behind by a process that died."""
KEPT_SENT: Final = 180 * 86400.0
_COLUMNS: Final = (
    "number, run, event, at, document, sent_at, answer, tries, tried_at, due, trouble, trouble_at"
)


class Letter(Frozen):
    """What is to be posted: the issue's address (or the repository's) and the exact text."""

    kind: str
    to: str
    body: str


class Waiting(Frozen):
    """One row. ``due`` is when it may be tried next; ``None``: only when a person asks again.

    ``tried_at`` is when it was last sent off without a definite answer: it may be there.
    """

    number: int
    run: str
    event: str
    at: Instant
    letter: Letter
    sent_at: Instant | None = None
    answer: str | None = None
    tries: int = 0
    tried_at: Instant | None = None
    due: Instant | None = None
    trouble: str | None = None
    trouble_at: Instant | None = None


class Outbox(StoreView):
    """Reads and writes the queue of one store."""

    def put(self, run: str, event: str, letter: Letter, now: float) -> Waiting:
        """Queue a letter, or return the row of this event that is there already.

        One that is there and was not sent takes the address of the newer letter, and is due.
        """
        with self._store.writing() as connection:
            connection.execute("DELETE FROM outbox WHERE sent_at < ?", (now - KEPT_SENT,))
            connection.execute(
                "INSERT OR IGNORE INTO outbox (run, event, at, document, due)"
                " VALUES (?, ?, ?, ?, ?)",
                (run, event, now, pack(letter), now),
            )
            found = _rows(connection, "run = ? AND event = ?", (run, event))
            if not found or found[0].sent_at is None:
                former = found[0].letter if found else letter
                connection.execute(
                    "UPDATE outbox SET document = ?, due = coalesce(due, ?)"
                    " WHERE run = ? AND event = ?",
                    (pack(former.model_copy(update={"to": letter.to})), now, run, event),
                )
            return _rows(connection, "run = ? AND event = ?", (run, event))[0]

    def row(self, number: int) -> Waiting | None:
        """Return a row as it is now."""
        with self._store.reading() as connection:
            return next(iter(_rows(connection, "number = ?", (number,))), None)

    def waiting(self, run: str) -> tuple[Waiting, ...]:
        """Return a run's comments that were not sent, in the order in which they were queued."""
        with self._store.reading() as connection:
            found = _rows(connection, "run = ? AND sent_at IS NULL", (run,))
        return tuple(row for row in found if row.letter.kind == "comment")

    def runs(self) -> frozenset[str]:
        """Return the runs of which a comment waits that may be sent by itself."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT run FROM outbox WHERE sent_at IS NULL AND due IS NOT NULL"
            ).fetchall()
        return frozenset(str(row[0]) for row in rows)

    def claim(self, number: int, claim: str, now: float) -> Waiting | None:
        """Take a row for sending; ``None`` if it is sent, gone, or claimed by another process.

        ``now`` was read before the store was waited for: whoever claimed it meanwhile did so
        later. Only a claim from farther ahead than one lasts is of a clock that was set back.
        """
        with self._store.writing() as connection:
            taken = connection.execute(
                "UPDATE outbox SET claim = ?, claimed_at = ? WHERE number = ? AND sent_at IS NULL"
                " AND (claim IS NULL OR claimed_at > ? OR claimed_at < ?)",
                (claim, now, number, now + CLAIMED_FOR, now - CLAIMED_FOR),
            ).rowcount
            return _rows(connection, "number = ?", (number,))[0] if taken else None

    def release(self, number: int, claim: str) -> None:
        """Give a row back."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE outbox SET claim = NULL, claimed_at = NULL WHERE number = ? AND claim = ?",
                (number, claim),
            )

    def trying(self, number: int, now: float) -> None:
        """Write that it is being sent, before it is."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE outbox SET tries = tries + 1, tried_at = ? WHERE number = ?",
                (now, number),
            )

    def sent(self, number: int, answer: str, now: float) -> None:
        """Write where it stands now."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE outbox SET sent_at = ?, answer = ?, trouble = NULL, trouble_at = NULL,"
                " due = NULL WHERE number = ?",
                (now, answer, number),
            )

    def failed(
        self, number: int, trouble: str, now: float, due: float | None, *, definite: bool = False
    ) -> None:
        """Write why it could not be sent, and when to try next (``None``: when asked).

        ``definite``: what was sent off is known to come to nothing.
        """
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE outbox SET trouble = ?, trouble_at = coalesce(trouble_at, ?), due = ?,"
                " tried_at = iif(?, NULL, tried_at) WHERE number = ?",
                (trouble, now, due, definite, number),
            )


def _rows(
    connection: sqlite3.Connection, where: str, values: Sequence[object]
) -> tuple[Waiting, ...]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number", tuple(values)
    ).fetchall()
    found = (_row(row) for row in rows)
    return tuple(row for row in found if row is not None)


def _row(row: Sequence[object]) -> Waiting | None:
    fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
    letter = unpack(Letter, str(fields.pop("document")))
    return None if letter is None else Waiting.model_validate({**fields, "letter": letter})
