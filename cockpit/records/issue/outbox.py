"""Comments on an issue: queued, claimed, posted once, retried while offline (SPEC S-11)."""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from cockpit.model.base import Frozen, rfc3339
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.wording import utc_minute
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.offload import offload
from cockpit.sources.github import Comment, GitHub, GitHubPlace
from cockpit.store.messages import Letter, Outbox, Waiting
from cockpit.store.store import Store, StoreError
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub

ROBOT: Final = "🤖"
LONGEST_COMMENT: Final = 60_000
"""Characters of a body; GitHub takes 65,536 with everything."""
_MARKER: Final = re.compile(r"<!-- cockpit:([0-9a-f]{16}) ([0-9a-f]{8}) -->")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_CUT: Final = "… cut here; the whole of it is in the logbook"
SEARCHES: Final = (0.0, 1.0, 3.0)
"""Seconds to wait before each look for a post whose answer was lost."""
_REFUSALS: Final = frozenset({ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN, ErrorKind.NOT_FOUND})


class PostMarker(NamedTuple):
    """Which event, and whose post of it."""

    event: str
    sender: str

    @property
    def line(self) -> str:
        """The line that is posted."""
        return f"<!-- cockpit:{self.event} {self.sender} -->"


def event_digest(run: str, event: str) -> str:
    """Return an event's identity: 16 hexadecimal digits, the same everywhere."""
    return hashlib.sha256(f"{run}\n{event}".encode()).hexdigest()[:16]


def sender_digest(*parts: str) -> str:
    """Return a sender's identity: 8 hexadecimal digits that tell nothing about it."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def marker_of(body: str) -> PostMarker | None:
    """Return the marker of a post: its last line, never one that is quoted or inside."""
    lines = body.rstrip().splitlines()
    found = _MARKER.fullmatch(lines[-1]) if lines else None
    return None if found is None else PostMarker(found.group(1), found.group(2))


def same_text(one: str, other: str) -> bool:
    """Tell whether two posts are the same, whatever their line breaks."""
    return one.split() == other.split()


def post_text(body: str, marker: PostMarker) -> str:
    """Return exactly what is posted: safe, masked, 🤖 first, the marker last."""
    plain = scrub("\n".join(line.plain for line in safe_lines(body))).strip()
    if not plain.startswith(ROBOT):
        plain = f"{ROBOT} {plain}".strip()
    return f"{_closed(_short(plain))}\n\n{marker.line}"


def _short(body: str) -> str:
    if len(body) <= LONGEST_COMMENT:
        return body
    kept = body[:LONGEST_COMMENT].rpartition("\n")[0] or body[:LONGEST_COMMENT]
    return f"{_closed(kept)}\n\n{_CUT}"


def _closed(body: str) -> str:
    """Return ``body`` with a code fence that was left open closed: what follows is no code."""
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark is None:
            continue
        if not fence:
            fence = mark.group(1)
        elif mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
    return f"{body}\n{fence}" if fence else body


def refused(error: HttpError) -> bool:
    """Tell whether asking again is of no use before a person has done something."""
    if error.kind is ErrorKind.RATE_LIMITED or isinstance(error, LostAnswerError):
        return False
    return error.kind in _REFUSALS or (error.status is not None and error.status < 500)


class Post(NamedTuple):
    """What is posted where; ``text`` ends in the marker's line."""

    place: GitHubPlace
    marker: PostMarker
    text: str


T = TypeVar("T")


async def looked_for(
    clock: Clock, lost: LostAnswerError, look: Callable[[], Awaitable[T | None]]
) -> T:
    """Return what a request has made whose answer was lost; raises ``lost`` if nothing is there."""
    for pause in SEARCHES:
        await clock.sleep(pause)
        try:
            found = await look()
        except HttpError:
            break
        if found is not None:
            return found
    raise lost


class Poster:
    """Posts comments. Raises ``HttpError``; after ``LostAnswerError`` it may be there or not."""

    def __init__(self, github: GitHub, clock: Clock) -> None:
        self._github = github
        self._clock = clock

    async def post(
        self, post: Post, trying: Callable[[], Awaitable[None]], *, may_post: bool = True
    ) -> str:
        """Return where the comment of this event stands; ``trying`` is awaited before it is sent.

        Without ``may_post`` it is only looked up: an earlier request may still be acted upon.
        """
        async with self._github.http.session():
            found, newest = await self._marked(post)
            if not found and not may_post:
                words = f"{post.place.label}: the answer was lost, and the comment is not there yet"
                raise LostAnswerError(ErrorKind.TIMEOUT, words)
            if not found:
                await trying()
                found = await self._sent(post, newest)
            return await self._one_stays(post, found)

    async def _sent(self, post: Post, newest: int) -> list[Comment]:
        """Send it, and return every comment of this event that came since ``newest``."""
        try:
            own = await self._github.add_comment(post.place, post.text)
        except LostAnswerError as lost:
            return await looked_for(self._clock, lost, lambda: self._found(post, newest))
        try:
            found, _ = await self._marked(post, newest)
        except HttpError:  # it is posted; whether another one is too is not known now
            return [own]
        return found if own.id in {comment.id for comment in found} else [*found, own]

    async def _found(self, post: Post, newest: int) -> list[Comment] | None:
        found, _ = await self._marked(post, newest)
        return found or None

    async def _marked(self, post: Post, after: int = 0) -> tuple[list[Comment], int]:
        """Return this event's comments later than ``after``, oldest first; and the newest id."""
        found, newest = [], after
        async for comment in self._github.comments(post.place):
            newest = max(newest, comment.id)
            if comment.id <= after:
                break
            marker = marker_of(comment.body)
            if marker is not None and marker.event == post.marker.event:
                found.append(comment)
        return sorted(found, key=lambda comment: comment.id), newest

    async def _one_stays(self, post: Post, found: list[Comment]) -> str:
        """Delete what we posted after the first one; never what anyone has changed since."""
        first = found[0]
        for comment in found[1:]:
            own = marker_of(comment.body) == post.marker and same_text(comment.body, post.text)
            if own:
                await self._delete(post.place, comment.id)
        return first.url

    async def _delete(self, place: GitHubPlace, comment: int) -> None:
        try:
            await self._github.delete_comment(place, comment)
        except HttpError as error:
            if not refused(error):  # it will be tried again; one that we may not delete stays
                raise


DEADLINE: Final = 10.0
WHOLE: Final = 90.0
"""Seconds for one comment with all its looks: less than a claim lasts."""
SETTLE: Final = 30.0
"""Seconds in which a request whose answer was lost may still be acted upon."""
SHORTEST: Final = 15.0
"""The shortest wait (s) for another try; it grows with how long sending has failed."""
LONGEST: Final = 900.0
"""The longest such wait (s)."""
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
        said = not_sent_text(error, since)
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
            why = not_sent_text(error, self._clock.now())
            said = f"not posted: {why}; there is no store to queue in"
            return Recorded(stage=SaveStage.NOTHING, trouble=said)

    async def _waiting(self, run: str) -> Sequence[Waiting]:
        return await self._box.ask(lambda box: box.waiting(run)) or ()


def _behind(error: HttpError) -> HttpError:
    """Return what it means for a comment that one before it could not be sent."""
    kind = ErrorKind.BAD_ANSWER if isinstance(error, LostAnswerError) else error.kind
    return HttpError(kind, f"an earlier comment goes first: {error}", retry_in=error.retry_in)


def not_sent_text(error: HttpError, since: float) -> str:
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
