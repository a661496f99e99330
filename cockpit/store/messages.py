"""Messages and comments that wait or were sent: notifications, and the outbox of the issue."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Moment
from cockpit.store.store import StoreView, instant, pack, unpack

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
        own = "run = ? AND event = ?"
        with self._store.writing():
            self._change("DELETE FROM outbox WHERE sent_at < ?", now - KEPT_SENT)
            row = {"run": run, "event": event, "at": now, "due": now}
            self._insert("OR IGNORE INTO outbox", **row, document=pack(letter))
            found = self._rows(own, run, event)
            if not found or found[0].sent_at is None:
                former = found[0].letter if found else letter
                document = pack(former.model_copy(update={"to": letter.to}))
                query = f"UPDATE outbox SET document = ?, due = coalesce(due, ?) WHERE {own}"
                self._change(query, document, now, run, event)
            return self._rows(own, run, event)[0]

    def row(self, number: int) -> Waiting | None:
        """Return a row as it is now."""
        return next(iter(self._rows("number = ?", number)), None)

    def waiting(self, run: str) -> tuple[Waiting, ...]:
        """Return a run's comments that were not sent, in the order in which they were queued."""
        found = self._rows("run = ? AND sent_at IS NULL", run)
        return tuple(row for row in found if row.letter.kind == "comment")

    def runs(self) -> frozenset[str]:
        """Return the runs of which a comment waits that may be sent by itself."""
        query = "SELECT DISTINCT run FROM outbox WHERE sent_at IS NULL AND due IS NOT NULL"
        return frozenset(str(row[0]) for row in self._all(query))

    def claim(self, number: int, claim: str, now: float) -> Waiting | None:
        """Take a row for sending; ``None`` if it is sent, gone, or claimed by another process.

        ``now`` was read before the store was waited for: whoever claimed it meanwhile did so
        later. Only a claim from farther ahead than one lasts is of a clock that was set back.
        """
        with self._store.writing():
            taken = self._change(
                "UPDATE outbox SET claim = ?, claimed_at = ? WHERE number = ? AND sent_at IS NULL"
                " AND (claim IS NULL OR claimed_at > ? OR claimed_at < ?)",
                claim, now, number, now + CLAIMED_FOR, now - CLAIMED_FOR,
            )  # fmt: skip
            return self.row(number) if taken else None

    def release(self, number: int, claim: str) -> None:
        """Give a row back."""
        query = "UPDATE outbox SET claim = NULL, claimed_at = NULL WHERE number = ? AND claim = ?"
        self._change(query, number, claim)

    def trying(self, number: int, now: float) -> None:
        """Write that it is being sent, before it is."""
        self._change(
            "UPDATE outbox SET tries = tries + 1, tried_at = ? WHERE number = ?", now, number
        )

    def sent(self, number: int, answer: str, now: float) -> None:
        """Write where it stands now."""
        self._change(
            "UPDATE outbox SET sent_at = ?, answer = ?, trouble = NULL, trouble_at = NULL,"
            " due = NULL WHERE number = ?",
            now, answer, number,
        )  # fmt: skip

    def failed(
        self, number: int, trouble: str, now: float, due: float | None, *, definite: bool = False
    ) -> None:
        """Write why it could not be sent, and when to try next (``None``: when asked).

        ``definite``: what was sent off is known to come to nothing.
        """
        self._change(
            "UPDATE outbox SET trouble = ?, trouble_at = coalesce(trouble_at, ?), due = ?,"
            " tried_at = iif(?, NULL, tried_at) WHERE number = ?",
            trouble, now, due, definite, number,
        )  # fmt: skip

    def _rows(self, where: str, *values: object) -> tuple[Waiting, ...]:
        query = f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number"
        found = self._values(_waiting, query, *values)
        return tuple(row for row in found if row is not None)


def _waiting(document: str, **fields: Any) -> Waiting | None:  # noqa: ANN401 - the columns
    letter = unpack(Letter, document)
    return None if letter is None else Waiting(letter=letter, **fields)


WINDOW: Final = 600.0
"""Seconds over which the messages of one route are counted."""
BACK_OFF: Final = (30.0, 120.0, 480.0, 1920.0)
"""Seconds before each further attempt after a failure; after the last one it is given up."""
SENDS_WITHIN: Final = 30.0
"""Seconds within which a claimed message must be begun; then it is anybody's."""
LOST_AFTER: Final = 90.0
"""Seconds after which a message that is being sent counts as lost: its sender was killed."""
KEEP: Final = 180 * 86400.0
HELD: Final = "held"
GATHER: Final = 60.0
"""Seconds for which kept back messages gather before a summary tells of them."""


class SendClaim(Enum):
    """Whether the caller is to send a message now."""

    MINE = "mine"
    NOT_NOW = "not now"
    DONE = "done"
    HELD = "held"


class Asked(NamedTuple):
    """A message that wants to go by a route.

    ``covered_by`` are events that make it needless, ``once_more`` allows one more attempt after
    a lost answer, ``most`` is the rate limit (``None``: it does not count here), ``at_once``
    does not wait for the back-off.
    """

    run: str
    event: str
    route: str
    covered_by: tuple[str, ...] = ()
    once_more: bool = False
    most: int | None = None
    at_once: bool = False


class TakenOverError(Exception):
    """A claimed message was not begun in time, and is somebody else's now."""


class Sent(NamedTuple):
    """What the store knows of one event on one route; ``at`` is when it was last tried."""

    event: str
    route: str
    at: Moment
    done: bool
    trouble: str | None

    @property
    def needs_no_more(self) -> bool:
        """Whether it was sent, given up, or kept back for a summary."""
        return self.done or self.trouble == HELD


class Held(NamedTuple):
    """Messages that the rate limit kept back on one route: the run and the event of each."""

    runs: tuple[str, ...]
    events: tuple[str, ...]


class _Row(NamedTuple):
    """One row; the trouble of one that is not there is ``""``."""

    at: Moment = Moment(0.0)
    tries: int = 0
    done: bool = False
    trouble: str | None = ""
    claim: str | None = None


class Notified(StoreView):
    """The claims."""

    def claim(self, asked: Asked, now: Moment, who: str) -> SendClaim:
        """Take a message for sending, in one transaction that other processes wait for.

        ``who`` tells this attempt from every other; it must ``begin`` before it sends.
        """
        with self._store.writing():
            return self._claim(asked, now, who)

    def begin(self, asked: Asked, now: Moment, who: str) -> None:
        """Write that it is being sent now; raises ``TakenOverError`` if it is not ours any more."""
        begun = self._change(
            "UPDATE notified SET tries = tries + 1, claim = NULL, at = ?, steady = ?, boot = ?"
            " WHERE run = ? AND event = ? AND route = ? AND claim = ?",
            *instant(now).values(), asked.run, asked.event, asked.route, who,
        )  # fmt: skip
        if not begun:
            raise TakenOverError

    def settle(
        self,
        asked: Asked,
        now: Moment,
        trouble: str | None = None,
        *,
        lost: bool = False,
        counts: bool = True,
    ) -> None:
        """Record how sending went; a ``lost`` answer counts as sent unless it may go once more.

        What failed before it was begun is an attempt as well. Without ``counts`` it went in the
        message of another one, and is none for the rate limit.
        """
        with self._store.writing():
            row = self._row(asked)
            tries = row.tries + (row.claim is not None)
            done = trouble is None or (lost and not (asked.once_more and tries < 2))
            done = done or tries > len(BACK_OFF)
            tries = tries if counts or not done else 0
            self._change(
                "UPDATE notified SET at = ?, steady = ?, boot = ?, done = ?, trouble = ?,"
                " tries = ?, claim = NULL WHERE run = ? AND event = ? AND route = ?",
                *instant(now).values(), done, trouble, tries, asked.run, asked.event, asked.route,
            )  # fmt: skip

    def of(self, run: str, prefix: str) -> tuple[Sent, ...]:
        """Return what was claimed for events of a run that begin with ``prefix``."""
        rows = self._all(
            "SELECT event, route, at, steady, boot, done, trouble FROM notified"
            " WHERE run = ? AND substr(event, 1, ?) = ? ORDER BY at",
            run, len(prefix), prefix,
        )  # fmt: skip
        return tuple(Sent(row[0], row[1], Moment(*row[2:5]), bool(row[5]), row[6]) for row in rows)

    def claim_summary(self, file: str, route: str, event: str, now: Moment) -> Held | None:
        """Take what was kept back for the runs of ``file`` (the beginning of their ``run_key``).

        ``None`` if there is nothing, if it is too young (more may follow), or if another
        summary went by this route within the window.
        """
        if not self._held(file, route):
            return None
        with self._store.writing():
            rows = self._held(file, route)
            last = self._first(
                "SELECT at, steady, boot FROM notified WHERE run = ? AND route = ?"
                " ORDER BY at DESC LIMIT 1",
                file, route,
            )  # fmt: skip
            young = not rows or 0 <= now.since(Moment(*rows[0][2:5])) < GATHER
            if young or (last is not None and 0 <= now.since(Moment(*last)) < WINDOW):
                return None
            own = {"run": file, "event": event, "route": route, **instant(now)}
            self._insert("OR REPLACE INTO notified", **own, tries=1, done=True)
            self._set_done(route, rows, done=True)
        return Held(tuple(row[0] for row in rows), tuple(row[1] for row in rows))

    def release_summary(self, route: str, held: Held) -> None:
        """Keep back again what a summary could not tell; the window passes before the next."""
        self._set_done(route, list(zip(held.runs, held.events, strict=True)), done=False)

    def prune(self, now: Moment) -> None:
        """Forget what is older than half a year."""
        self._change("DELETE FROM notified WHERE at < ?", now.wall - KEEP)

    def _claim(self, asked: Asked, now: Moment, who: str) -> SendClaim:
        row = self._row(asked)
        covered = (self._row(asked._replace(event=each)) for each in asked.covered_by)
        if row.done or any(each.trouble != "" for each in covered):
            return SendClaim.DONE
        if row.trouble == HELD and not asked.at_once:
            return SendClaim.HELD
        if row.claim is not None or (row.tries and row.trouble is None):
            return self._left_behind(asked, row, now, who)
        waits = BACK_OFF[min(row.tries, len(BACK_OFF)) - 1] if row.tries else 0.0
        if row.trouble and not asked.at_once and 0 <= now.since(row.at) < waits:
            return SendClaim.NOT_NOW
        if not row.tries and asked.most is not None and self._lately(asked, now) >= asked.most:
            self._write(asked, _Row(now, trouble=HELD))
            return SendClaim.HELD
        return self._mine(asked, row, now, who)

    def _left_behind(self, asked: Asked, row: _Row, now: Moment, who: str) -> SendClaim:
        """Judge what was claimed and never begun, or begun without an end: it may have arrived.

        Whoever did so was killed, or hangs. Another machine's clock may be a little ahead.
        """
        begun = row.claim is None
        if abs(now.since(row.at)) < (LOST_AFTER if begun else SENDS_WITHIN):
            return SendClaim.NOT_NOW
        if not begun or (asked.once_more and row.tries < 2):
            return self._mine(asked, row, now, who)
        self._write(asked, row._replace(done=True, trouble="its sender was killed"))
        return SendClaim.DONE

    def _mine(self, asked: Asked, row: _Row, now: Moment, who: str) -> SendClaim:
        self._write(asked, _Row(now, row.tries, trouble=None, claim=who))
        return SendClaim.MINE

    def _row(self, asked: Asked) -> _Row:
        row = self._first(
            "SELECT at, steady, boot, tries, done, trouble, claim FROM notified"
            " WHERE run = ? AND event = ? AND route = ?",
            asked.run, asked.event, asked.route,
        )  # fmt: skip
        return _Row() if row is None else _Row(Moment(*row[:3]), row[3], bool(row[4]), *row[5:])

    def _write(self, asked: Asked, row: _Row) -> None:
        own = {"run": asked.run, "event": asked.event, "route": asked.route}
        self._insert("OR REPLACE INTO notified", **own, **row._asdict() | instant(row.at))

    def _lately(self, asked: Asked, now: Moment) -> int:
        """Return how many messages went by the route lately, of any run; held ones never went."""
        rows = self._all(
            "SELECT at, steady, boot FROM notified"
            " WHERE route = ? AND (tries > 0 OR claim IS NOT NULL) ORDER BY at DESC LIMIT ?",
            asked.route, asked.most,
        )  # fmt: skip
        return sum(0 <= now.since(Moment(*row)) < WINDOW for row in rows)

    def _held(self, file: str, route: str) -> list[Any]:
        return self._all(
            "SELECT run, event, at, steady, boot FROM notified"
            " WHERE route = ? AND trouble = ? AND done = 0"
            " AND substr(run, 1, ?) = ? ORDER BY at",
            route, HELD, len(file), file,
        )  # fmt: skip

    def _set_done(self, route: str, rows: Sequence[Sequence[object]], *, done: bool) -> None:
        self._change_all(
            "UPDATE notified SET done = ? WHERE run = ? AND event = ? AND route = ?",
            [(done, row[0], row[1], route) for row in rows],
        )
