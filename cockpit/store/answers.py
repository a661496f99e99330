"""Answers from a phone: what was offered to be answered, and what was heard of it."""

from __future__ import annotations

import secrets
from base64 import b32encode
from typing import Any, Final, NamedTuple

from cockpit.model.answers import TAKEN, HeardAnswer, Offer
from cockpit.model.clock import Moment
from cockpit.model.wording import duration
from cockpit.store.ownership import Holder, lives, this_holder
from cockpit.store.store import StoreView, instant, pack, unpack

KEEP: Final = 90 * 86400.0
"""Seconds for which answers are kept: far longer than any of them may be acted on."""
KEEP_OFFERS: Final = 3 * 86400.0
CLOCKS: Final = 60.0
"""Seconds by which the wall clock may fall behind an offer before it counts as set back."""
_COLUMNS: Final = "source, answer, at, who, said, state, result, times"


class FoundOffer(NamedTuple):
    """An offer of this store, and why it holds no more.

    ``age`` is how long ago it was made at most, and ``made_ago`` by the clock that is not set (s).
    """

    offer: Offer
    age: float
    made_ago: float
    over: str | None


class InterruptedAnswer(NamedTuple):
    """An answer whose process ended before it had replied; ``place`` is where a reply goes."""

    heard: HeardAnswer
    place: str
    holder: str


def new_ref() -> str:
    """Return a name for an offer that nobody can guess: 26 letters and digits."""
    return b32encode(secrets.token_bytes(16)).decode("ascii").rstrip("=")


class Answers(StoreView):
    """The offers and answers of one store. ``file`` is the ``run_key`` of no run."""

    def offer(self, file: str, offer: Offer, now: Moment) -> None:
        """Keep an offer, and forget those that are long over."""
        with self._store.writing():
            self._change("DELETE FROM offers WHERE at < ?", now.wall - KEEP_OFFERS)
            self._insert(
                "INTO offers", ref=offer.ref, code=offer.code, file=file, **instant(now),
                document=pack(offer),
            )  # fmt: skip

    def offered(self, file: str, ref_or_code: str, now: Moment) -> FoundOffer | None:
        """Return the offer of this name or code, the newest one; ``None``: none was made here."""
        row = self._first(
            "SELECT document, at, steady, boot, used_at FROM offers WHERE file = ?"
            " AND (ref = ? OR code = ?) ORDER BY at DESC LIMIT 1",
            file, ref_or_code, ref_or_code,
        )  # fmt: skip
        offer = None if row is None else unpack(Offer, row[0])
        if row is None or offer is None:
            return None
        made = Moment(row[1], row[2], row[3])
        # Both clocks: one that was set forward makes it end early, one set back not late.
        made_ago = now.since(made)
        age = max(made_ago, now.wall - made.wall)
        over = None
        if row[4] is not None:
            over = "it was used already"
        elif now.wall < made.wall - CLOCKS:
            over = "this machine's clock was set back since it was offered"
        elif age > offer.lasts:
            over = f"it held for {duration(offer.lasts)}"
        return FoundOffer(offer, age, made_ago, over)

    def use(self, ref: str, now: float) -> bool:
        """Use an offer up; ``False`` if somebody has done that already."""
        query = "UPDATE offers SET used_at = ? WHERE ref = ? AND used_at IS NULL"
        return self._change(query, now, ref) == 1

    def take(self, run: str, heard: HeardAnswer, place: str = "") -> bool:
        """Take an answer as ours to deal with; ``False`` if it was taken before, by anybody.

        ``place`` is where a reply goes.
        """
        own = {"run": run, "holder": pack(this_holder()), "place": place}
        with self._store.writing():
            self._change("DELETE FROM answers WHERE at < ?", heard.at - KEEP)
            fields = {name: getattr(heard, name) for name in _COLUMNS.split(", ")}
            return self._insert("OR IGNORE INTO answers", **own, **fields).rowcount == 1

    def settle(self, run: str, heard: HeardAnswer) -> bool:
        """Write how an answer that was taken has ended; ``False`` if that is written already.

        From then on a reply is owed.
        """
        query = (
            "UPDATE answers SET state = ?, result = ?, owed = 1 WHERE run = ? AND source = ?"
            " AND answer = ? AND state = ?"
        )
        key = run, heard.source, heard.answer, TAKEN
        return self._change(query, heard.state, heard.result, *key) == 1

    def replied(self, run: str, source: str, answer: str) -> None:
        """Write that nothing is left to do for an answer."""
        query = "UPDATE answers SET owed = 0 WHERE run = ? AND source = ? AND answer = ?"
        self._change(query, run, source, answer)

    def adopt(self, run: str, found: InterruptedAnswer) -> bool:
        """Take what a process has left that is gone; ``False`` if somebody has done that."""
        query = (
            "UPDATE answers SET holder = ? WHERE run = ? AND source = ? AND answer = ?"
            " AND holder = ?"
        )
        key = run, found.heard.source, found.heard.answer, found.holder
        return self._change(query, pack(this_holder()), *key) == 1

    def interrupted(self, run: str, before: float) -> tuple[InterruptedAnswer, ...]:
        """Return the answers to which processes have not replied that are gone.

        Those of another machine or container cannot be looked at: they are if they were taken
        ``before`` (epoch s).
        """
        query = (
            f"SELECT holder, place, {_COLUMNS} FROM answers WHERE run = ? AND (owed OR state = ?)"
        )
        found, rows = [], self._values(dict[str, Any], query, run, TAKEN)
        for row in rows:
            holder, place = row.pop("holder"), row.pop("place")
            owner = unpack(Holder, holder)
            heard, alive = HeardAnswer(**row), None if owner is None else lives(owner)
            if alive is False or (alive is None and heard.at < before):
                found.append(InterruptedAnswer(heard, place, holder))
        return tuple(found)

    def of(self, run: str) -> tuple[HeardAnswer, ...]:
        """Return the answers about a run, oldest first."""
        query = f"SELECT {_COLUMNS} FROM answers WHERE run = ? ORDER BY at"
        return self._values(HeardAnswer, query, run)
