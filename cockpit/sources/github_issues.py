"""When the issues of many runs last moved, at next to no cost (SPEC S-11, C-24).

An issue is asked for at most every five minutes, with the tag of the last answer. Only the very
first look waits, and shortly: later ones give what is known and ask in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.run import RunSpec
from cockpit.sources.github import GitHub
from cockpit.sources.github_place import Place
from cockpit.sources.http import HttpError

EVERY: Final = 300.0
FIRST_WAIT: Final = 2.0


class Moved(Frozen):
    """When an issue last moved and when that was seen; ``note`` is why it cannot be told."""

    updated_at: Instant | None = None
    seen_at: Instant | None = None
    note: str | None = None


class _Watched:
    """One issue: what is known of it, and until when that is new enough."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.moved: Moved | None = None
        self.etag: str | None = None
        self.due = float("-inf")


class Issues:
    """The issues of a fleet; one that several runs share is asked for once. Never raises."""

    def __init__(self, github: GitHub, clock: Clock) -> None:
        self._github = github
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def moved(self, runs: Sequence[RunSpec]) -> dict[str, Moved]:
        """Return what is known of the issue of each run that names one, by the run's name."""
        urls = {run.name: run.records.issue for run in runs if run.records.issue is not None}
        found = {name: self._of(url) for name, url in urls.items()}
        await self._refresh([each for each in dict.fromkeys(found.values()) if each is not None])
        return {name: _known(watched) for name, watched in found.items()}

    def _of(self, url: str) -> _Watched | None:
        place = self._github.issue_place(url)
        if place is None:
            return None
        return self._watched.setdefault(place.issue_url, _Watched(place))

    async def _refresh(self, issues: Sequence[_Watched]) -> None:
        now = self._clock.monotonic()
        due = [each for each in issues if each.due <= now]
        if not due:
            return
        for each in due:
            each.due = now + EVERY
        task = asyncio.ensure_future(self._ask(due))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        if any(each.moved is None for each in due):
            await asyncio.wait({task}, timeout=FIRST_WAIT)

    async def _ask(self, due: Sequence[_Watched]) -> None:
        try:
            async with self._github.http.session():
                await asyncio.gather(*(self._one(each) for each in due))
        except HttpError as error:  # no session at all
            for each in due:
                each.moved = _noted(each.moved, error)

    async def _one(self, watched: _Watched) -> None:
        former = watched.moved
        try:
            seen = await self._github.issue(watched.place, watched.etag)
        except HttpError as error:
            watched.moved = _noted(former, error)
            return
        now = self._clock.now()
        if seen is not None:
            watched.etag = seen.etag
            watched.moved = Moved(updated_at=seen.issue.updated_at, seen_at=now)
        elif former is not None:
            watched.moved = Moved(updated_at=former.updated_at, seen_at=now)


def _noted(former: Moved | None, error: HttpError) -> Moved:
    """Return what was known before, with the reason why it is not newer."""
    return (former or Moved()).model_copy(update={"note": str(error)})


def _known(watched: _Watched | None) -> Moved:
    if watched is None:
        return Moved(note="records.issue is not the address of an issue on GitHub")
    return watched.moved or Moved(note=f"{watched.place.label}: not read yet")
