"""Posts one event to an issue, once, whoever else is at it (SPEC S-11, SPEC A "at most once").

GitHub offers no idempotency key, so an invisible marker is one: it is looked up before anything
is posted, after an answer was lost, and after posting; of two posts the earlier one stays. The
marker, ``<!-- cockpit:<event> <sender> -->``, is the last line of every post. The event's digest
is the same on every machine, so that nobody posts an event twice; the sender's tells which of
two posts is one's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.sources.github import Comment, GitHub, GitHubPlace
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub

ROBOT: Final = "🤖"
LONGEST: Final = 60_000
"""Characters of a body; GitHub takes 65,536 with everything."""
_MARKER: Final = re.compile(r"<!-- cockpit:([0-9a-f]{16}) ([0-9a-f]{8}) -->")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CUT: Final = "… cut here; the whole of it is in the logbook"
LOOKS: Final = (0.0, 1.0, 3.0)
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


def post_text(body: str, marker: PostMarker, *, exact: bool = False) -> str:
    """Return exactly what is posted: safe, masked, 🤖 first unless ``exact``, the marker last.

    ``exact`` words were approved by a person: only secrets and control characters leave them.
    """
    safe = "\n".join(line.plain for line in safe_lines(body))
    plain = scrub(_CONTROL.sub("", body.replace("\r\n", "\n")) if exact else safe).strip()
    if not exact and not plain.startswith(ROBOT):
        plain = f"{ROBOT} {plain}".strip()
    return f"{_closed(_short(plain))}\n\n{marker.line}"


def _short(body: str) -> str:
    if len(body) <= LONGEST:
        return body
    kept = body[:LONGEST].rpartition("\n")[0] or body[:LONGEST]
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
            return await self._looked_for(post, newest, lost)
        try:
            found, _ = await self._marked(post, newest)
        except HttpError:  # it is posted; whether another one is too cannot be told now
            return [own]
        return found if own.id in {comment.id for comment in found} else [*found, own]

    async def _looked_for(self, post: Post, newest: int, lost: LostAnswerError) -> list[Comment]:
        for pause in LOOKS:
            await self._clock.sleep(pause)
            try:
                found, _ = await self._marked(post, newest)
            except HttpError:
                break
            if found:
                return found
        raise lost

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
