"""The queue of comments: each is written down, claimed, posted, and tried again while offline.

Comments of one run go out in their order. What GitHub refuses waits for a person and lets the
next ones pass; what could not be sent for want of a network keeps the others behind it.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from cockpit.model.base import Frozen, rfc3339
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.wording import utc_minute
from cockpit.records.issue.posting import Post, Poster, refused
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.offload import offload
from cockpit.store.messages import Letter, Outbox, Waiting
from cockpit.store.store import Store, StoreError

T = TypeVar("T")
DEADLINE: Final = 10.0
WHOLE: Final = 90.0
"""Seconds for one comment with all its looks: less than a claim lasts."""
SETTLE: Final = 30.0
"""Seconds in which a request whose answer was lost may still be acted upon."""
SHORTEST: Final = 15.0
LONGEST: Final = 900.0
PACE: Final = 1.0
"""Seconds between two posts of one flush: GitHub's advice against its secondary limit."""
_OFFLINE: Final = frozenset({ErrorKind.DNS, ErrorKind.REFUSED, ErrorKind.TIMEOUT, ErrorKind.TLS})


class AsyncOutbox:
    """Asks the outbox of a store, if there is one: what is posted is known by its marker too."""

    def __init__(self, store: Store | None) -> None:
        self._outbox = None if store is None else Outbox(store)

    async def ask(self, ask: Callable[[Outbox], T]) -> T | None:
        """Return what the outbox answers; ``None`` without a store that can be used."""
        outbox = self._outbox
        if outbox is None:
            return None
        try:
            return await offload(lambda: ask(outbox), deadline=DEADLINE)
        except (StoreError, TimeoutError):
            return None


class Flushed(Frozen):
    """What became of one comment that had waited."""

    run: str
    event: str
    recorded: Recorded


class Queue:
    """Sends comments through the store's outbox. ``posted`` makes of a row what is to be sent.

    Without a store, or with one that cannot be written, a comment is sent at once or not at
    all: the marker alone then keeps it from being posted twice.
    """

    def __init__(
        self, store: Store | None, clock: Clock, poster: Poster, posted: Callable[[Waiting], Post]
    ) -> None:
        self._box = AsyncOutbox(store)
        self._clock = clock
        self._poster = poster
        self._posted = posted

    async def comment(self, run: str, event: str, letter: Letter) -> Recorded:
        """Post an event's comment now, after those of the run that wait; never raises."""
        row = await self._box.ask(lambda box: box.put(run, event, letter, self._clock.now()))
        if row is None:
            return await self._at_once(run, event, letter)
        if row.sent_at is not None:
            return _sent(row.answer)
        for earlier in await self._waiting(run):
            if earlier.number < row.number and earlier.due is not None:
                error = (await self._attempt(earlier))[1]
                if error is not None and not refused(error):
                    return await self._failed(row, _behind(error))
        return (await self._attempt(row))[0]

    async def runs(self) -> frozenset[str]:
        """Return the runs of which something waits."""
        return await self._box.ask(lambda box: box.runs()) or frozenset()

    async def flush(self, run: str) -> tuple[Flushed, ...]:
        """Send what waits of one run and is due, in order, as far as it goes."""
        done: list[Flushed] = []
        for row in await self._waiting(run):
            if row.due is None:
                continue
            now = self._clock.now()
            if now < row.due <= now + LONGEST * 4:  # a clock set back holds nothing up for long
                break
            if done:
                await self._clock.sleep(PACE)
            recorded, _ = await self._attempt(row)
            done.append(Flushed(run=run, event=row.event, recorded=recorded))
            if recorded.queued:
                break
        return tuple(done)

    async def _attempt(self, row: Waiting) -> tuple[Recorded, HttpError | None]:
        """Post one row if it can be claimed, and write down how that went."""
        claim = uuid.uuid4().hex
        taken = await self._box.ask(lambda box: box.claim(row.number, claim, self._clock.now()))
        if taken is None:
            return await self._elsewhere(row), None
        try:
            return await self._claimed(taken)
        finally:
            await self._box.ask(lambda box: box.release(row.number, claim))

    async def _claimed(self, row: Waiting) -> tuple[Recorded, HttpError | None]:
        tried = False

        async def trying() -> None:
            nonlocal tried
            tried = True
            await self._box.ask(lambda box: box.trying(row.number, self._clock.now()))

        may_post = not unsettled(row, self._clock.now())
        try:
            async with asyncio.timeout(WHOLE):
                url = await self._poster.post(self._posted(row), trying, may_post=may_post)
        except HttpError as error:
            definite = tried and not isinstance(error, LostAnswerError)
            return await self._failed(row, error, definite=definite), error
        except TimeoutError:
            late = LostAnswerError(ErrorKind.TIMEOUT, f"no end within {WHOLE:g} s")
            return await self._failed(row, late), late
        await self._box.ask(lambda box: box.sent(row.number, url, self._clock.now()))
        return _sent(url), None

    async def _failed(self, row: Waiting, error: HttpError, *, definite: bool = False) -> Recorded:
        """Write down a failure; ``definite``: what was sent off is known to come to nothing."""
        now = self._clock.now()
        since = now if row.trouble_at is None else row.trouble_at
        due = None if refused(error) else now + _wait(error, now - since)
        said = said_of(error, since)
        await self._box.ask(lambda box: box.failed(row.number, said, now, due, definite=definite))
        queued = due is not None
        when = "" if due is None else f" (next try {utc_minute(due)})"
        said = f"{said}; queued, will be sent{when}" if queued else f"not posted: {said}"
        return Recorded(stage=SaveStage.NOTHING, trouble=said, queued=queued)

    async def _elsewhere(self, row: Waiting) -> Recorded:
        """Return how a row stands that cannot be claimed."""
        now = await self._box.ask(lambda box: box.row(row.number))
        if now is not None and now.sent_at is not None:
            return _sent(now.answer)
        said = "another cockpit is sending it"
        return Recorded(stage=SaveStage.NOTHING, trouble=said, queued=True)

    async def _at_once(self, run: str, event: str, letter: Letter) -> Recorded:
        """Post without a store."""

        async def trying() -> None:
            return None

        row = Waiting(number=0, run=run, event=event, at=self._clock.now(), letter=letter)
        try:
            return _sent(await self._poster.post(self._posted(row), trying))
        except HttpError as error:
            said = f"not posted: {said_of(error, self._clock.now())}; there is no store to queue in"
            return Recorded(stage=SaveStage.NOTHING, trouble=said)

    async def _waiting(self, run: str) -> Sequence[Waiting]:
        return await self._box.ask(lambda box: box.waiting(run)) or ()


def _behind(error: HttpError) -> HttpError:
    """Return what it means for a comment that one before it could not be sent."""
    kind = ErrorKind.BAD_ANSWER if isinstance(error, LostAnswerError) else error.kind
    words = f"an earlier comment goes first: {error}"
    return HttpError(kind, words, retry_in=error.retry_in)


def said_of(error: HttpError, since: float) -> str:
    """Return one line about why it was not sent."""
    if isinstance(error, LostAnswerError):
        return f"{error}; the next attempt first looks up whether it was posted"
    if error.kind in _OFFLINE and error.status is None:
        return f"no network since {rfc3339(since)[:16].replace('T', ' ')}Z ({error})"
    return str(error)


def unsettled(row: Waiting, now: float) -> bool:
    """Tell whether a request that was sent off may still be acted upon."""
    return row.tried_at is not None and 0 <= now - row.tried_at < SETTLE


def _wait(error: HttpError, lasted: float) -> float:
    """Return seconds until the next try: as long as the trouble has lasted, within bounds."""
    if isinstance(error, LostAnswerError):
        return SETTLE + 1
    wait = min(LONGEST, max(SHORTEST, lasted)) * (0.8 + 0.4 * random.random())
    return max(wait, error.retry_in or 0.0)


def _sent(url: str | None) -> Recorded:
    return Recorded(stage=SaveStage.NOTHING, url=url)
