"""The run's issue on GitHub: comments that are posted once, and the issue itself (SPEC S-11).

A ``Recorded`` of a comment has a ``url`` when it is posted and ``queued`` when it will be sent
by itself; its stage is ``nothing``, since stages are a logbook's.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable, Sequence
from typing import Final, Literal

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.records.issue.creating import ISSUE, Creator
from cockpit.records.issue.outbox import Flushed, Queue
from cockpit.records.issue.posting import (
    LONGEST,
    Post,
    Poster,
    PostMarker,
    event_digest,
    post_text,
    sender_digest,
)
from cockpit.runtime.http import Http, HttpError
from cockpit.sources.github import GitHub
from cockpit.store.messages import Letter, Waiting
from cockpit.store.store import Store

COMMENT: Final = "comment"
AT_ONCE: Final = 4
"""Runs of which comments are sent at the same time."""


class IssueService:
    """Writes to the issues of a fleet. Its methods never raise; ``Recorded`` tells how it went.

    ``key`` gives a run's identity in the store (``run_key``); by default it is its name.
    """

    def __init__(
        self,
        store: Store | None,
        clock: Clock,
        *,
        github: GitHub | None = None,
        key: Callable[[RunSpec], str] = lambda run: run.name,
    ) -> None:
        self._github = github or GitHub(Http(clock), clock)
        self._key = key
        self._runs: dict[str, RunSpec] = {}
        self._sender = _sender(store)
        poster = Poster(self._github, clock)
        self._queue = Queue(store, clock, poster, self._post)
        self._creator = Creator(store, clock, self._github)
        self.notes: dict[str, str] = {}
        """By run: what of a new issue is not as asked (labels that were dropped)."""

    async def comment(
        self, run: RunSpec, event: str, body: str, *, exact: bool = False
    ) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice. Queued while offline.

        The text begins with 🤖 unless a person approved it word by word (``exact``).
        """
        trouble = self._trouble(run, body, exact)
        if trouble is not None:
            return Recorded(stage=SaveStage.NOTHING, trouble=trouble)
        text = self.preview(run, "comment", body, event=event, exact=exact)
        letter = Letter(kind=COMMENT, to=run.records.issue or "", body=text)
        return await self._queue.comment(self._known(run), event, letter)

    async def flush(self, runs: Sequence[RunSpec]) -> tuple[Flushed, ...]:
        """Send what waits of these runs and is due, each run's in order; never raises.

        ``Flushed.run`` is the run's name. What GitHub refused is left out until ``comment`` is
        called for it again.
        """
        waiting = await self._queue.runs()
        few = asyncio.Semaphore(AT_ONCE)
        some = [run for run in runs if self._known(run) in waiting]
        found = await asyncio.gather(*(self._flushed(run, few) for run in some))
        return tuple(each for done in found for each in done)

    async def create(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue in ``issue_repo`` and return its ``url``; never two of them."""
        if run.records.issue is not None:
            return Recorded(stage=SaveStage.NOTHING, url=run.records.issue)
        text = self.preview(run, "issue", body)
        recorded, note = await self._creator.create(run, self._key(run), text)
        if note is not None:
            self.notes[run.name] = note
        return recorded

    def preview(
        self,
        run: RunSpec,
        kind: Literal["comment", "issue"],
        body: str,
        *,
        event: str = "",
        exact: bool = False,
    ) -> str:
        """Return exactly the text that would be posted (an issue's title is ``title(run)``)."""
        event = ISSUE if kind == "issue" else event
        return post_text(body, self._marker(run.name, event), exact=exact)

    async def _flushed(self, run: RunSpec, few: asyncio.Semaphore) -> tuple[Flushed, ...]:
        async with few:
            done = await self._queue.flush(self._known(run))
        return tuple(each.model_copy(update={"run": run.name}) for each in done)

    def _trouble(self, run: RunSpec, body: str, exact: bool) -> str | None:
        if run.records.issue is None:
            return "no issue in cockpit.toml (records.issue)"
        if self._github.issue_place(run.records.issue) is None:
            return "records.issue is not the address of an issue (https://github.com/o/r/issues/1)"
        if not body.strip():
            return "nothing to post: the text is empty"
        if exact and len(body) > LONGEST:
            return f"the text has {len(body):,} characters, {LONGEST:,} can be posted; shorten it"
        return None

    def _known(self, run: RunSpec) -> str:
        """Return the run's key, remembering which run it stands for."""
        key = self._key(run)
        self._runs[key] = run
        return key

    def _post(self, row: Waiting) -> Post:
        """Return what a row asks for, at the address that the run file names now."""
        run = self._runs[row.run]
        place = self._github.issue_place(run.records.issue or row.letter.to)
        if place is None:
            raise HttpError(ErrorKind.NOT_FOUND, "records.issue is not the address of an issue")
        return Post(place, self._marker(run.name, row.event), row.letter.body)

    def _marker(self, run: str, event: str) -> PostMarker:
        return PostMarker(event_digest(run, event), self._sender)


def _sender(store: Store | None) -> str:
    """Return who posts: this store on this machine, else this process."""
    if store is None:
        return sender_digest(uuid.uuid4().hex)
    return sender_digest(socket.gethostname(), str(store.path.resolve()))
